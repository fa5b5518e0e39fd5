// parallel.wrapper: a named way to make a model parallel, which sets keys for a name of MMEngine, or calls a part of
// the user.
#pragma once

#include <lockstep/train/parts.h>

#include <cstddef>
#include <vector>

namespace lockstep::train {

/// The wrappers of Lockstep.
std::vector<WrapperPart> wrapper_parts();

/// Sets the keys of the wrapper, such as parallel.mode and parallel.buffers. Error(config) if they contradict
/// parallel.mode stand_alone or auto.
void apply_wrapper(ResolvedRun& run);

/// `plan`, and the wrapper's placements of the parameters that it does not mention. Error(invalid_argument) for
/// placements that do not fit the mesh, and Error(config) for a pattern that fits no name.
ModulePlan with_wrapper_placements(ModulePlan plan, const ResolvedRun& run, const MeshLayout& mesh,
                                   const torch::nn::Module& module);

/// The number of parameters that may be in transfer while an operator computes; 0 for wrappers that place no
/// parameters.
std::size_t prefetch_of(const ResolvedRun& run);

/// Lets the wrapper prepare the module. All ranks call it.
void wrap_module(const ResolvedRun& run, torch::nn::Module& module, const Group& group);

}  // namespace lockstep::train
