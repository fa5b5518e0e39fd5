// Cost tables of a step's inputs: the memory of parameters, and the time to load the batch. Pure.
#pragma once

#include <lockstep/plan/search/elimination.h>
#include <lockstep/plan/search/versions.h>

#include <vector>

namespace lockstep::plan {

/// The bytes of a parameter with its gradient and optimizer state, for each of its possible placements. `version` is
/// the parameter's.
Table memory_table(const Program& program, std::size_t parameter, const Version& version,
                   const std::vector<Placements>& options, std::span<const int> mesh_sizes);

/// The possible placements of the inputs: replicated or sharded along each axis; a single one if the user has given it.
std::vector<Placements> input_options(const Space& space);

/// The seconds to read a rank's part of an input.
Table loading_table(const TensorInfo& input, const Version& version, const Decisions& decisions);

}  // namespace lockstep::plan
