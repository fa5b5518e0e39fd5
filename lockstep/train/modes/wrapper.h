// parallel.wrapper: how a model is made parallel, by a name: in the words of MMEngine, as settings of ours, or by a
// part of the user's.
#pragma once

#include <lockstep/train/parts.h>

#include <cstddef>
#include <vector>

namespace lockstep::train {

/// The wrappers that Lockstep brings.
std::vector<WrapperPart> wrapper_parts();

/// Sets the keys that the wrapper means, such as parallel.mode and parallel.buffers. Error(config) where they
/// contradict parallel.mode stand_alone or auto.
void apply_wrapper(ParallelConfig& config);

/// `plan`, and the wrapper's placements of the parameters that it does not mention. Error(invalid_argument) for
/// placements that do not fit the mesh, and Error(config) for a pattern that fits no name.
ModulePlan with_wrapper_placements(ModulePlan plan, const WrapperConfig& config, const MeshLayout& mesh,
                                   const torch::nn::Module& module);

/// How many parameters may be on their way while an operator computes; 0 with wrappers that place none.
std::size_t prefetch_of(const WrapperConfig& config);

/// Lets the wrapper prepare the module. All ranks call it.
void wrap_module(const WrapperConfig& config, torch::nn::Module& module, const Group& group);

}  // namespace lockstep::train
