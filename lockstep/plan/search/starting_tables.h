// Cost tables of a step's inputs: the memory of parameters, and the time to load the batch. Pure.
#pragma once

#include <lockstep/plan/search/elimination.h>
#include <lockstep/plan/search/versions.h>

#include <vector>

namespace lockstep::plan {

/// Bytes of a parameter with its gradient and optimizer state, for each way it may lie. `version` is the parameter's.
Table memory_table(const Program& program, std::size_t parameter, const Version& version,
                   const std::vector<Placements>& options, std::span<const int> mesh_sizes);

/// Whole or divided along each axis; one way where the user has decided.
std::vector<Placements> input_options(const Space& space);

/// Seconds that reading a part of an input takes.
Table loading_table(const TensorInfo& input, const Version& version, const Decisions& decisions);

}  // namespace lockstep::plan
