// The named alternatives (data_parallel, zero3, megatron), which are shown beside a plan. Pure.
#pragma once

#include <lockstep/plan/search/candidate.h>

#include <vector>

namespace lockstep::plan {

/// The alternatives in options.compare; data_parallel is added in front if it is missing. They use options.mesh, or one
/// axis of all devices (megatron: the best mesh of up to two axes). Error(invalid_argument) for names that are not in
/// kAlternatives.
std::vector<Candidate> named_alternatives(const Task& task, Meshes& meshes);

}  // namespace lockstep::plan
