// Jobs for tests of decisions: YAML as a user writes it.
#pragma once

#include <apps/operator/job/job.h>

#include <string>

namespace lockstep::test {

/// A job "a" in the namespace "team", uid "job-uid", of generation 1, with this YAML as its spec; `WORKER` in it is a
/// template.
kube::Job job_of(std::string spec);

}  // namespace lockstep::test
