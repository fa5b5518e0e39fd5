// Jobs in good health, for tests to spoil.
#pragma once

#include <lockstep/doctor/facts.h>

namespace lockstep::test {

/// Rank `rank`, alone on "node-a", "node-b", ...
doctor::Facts sound_host(int rank);

/// One rank on each of two hosts that reach each other.
doctor::JobFacts sound_job();

/// A process on its own.
doctor::JobFacts sound_process();

}  // namespace lockstep::test
