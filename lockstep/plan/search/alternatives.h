// The named alternatives (data_parallel, zero3, megatron), which are shown beside a plan. Pure.
#pragma once

#include <lockstep/plan/search/candidate.h>

#include <vector>

namespace lockstep::plan {

/// Of kAlternatives: options.compare and, where it is not among them, data_parallel first. On options.mesh, or on one
/// axis of all devices (megatron: on the best mesh of up to two). Error(invalid_argument) for names that nobody knows.
std::vector<Candidate> named_alternatives(const Task& task, Meshes& meshes);

}  // namespace lockstep::plan
