// Well-known layouts of a model on an axis of a mesh, as starting points of the search and for comparison. Pure.
#pragma once

#include <lockstep/plan/search/space.h>

#include <span>
#include <vector>

namespace lockstep::plan {

/// The use of an axis of the mesh.
enum class AxisUse {
  data,   ///< the batch is divided, parameters are whole
  zero,   ///< the batch is divided, and so is each parameter in its largest dimension
  wide,   ///< the batch is divided, and so are the outputs of layers that have more weights than inputs
  model,  ///< the batch is whole; layers are divided by outputs and by inputs in turn, as Megatron does
};
inline constexpr std::size_t kAxisUses = 4;

/// How each parameter lies along an axis of `ranks` ranks in Megatron's way, found by following the activations: a
/// layer whose input is whole is divided by outputs, one whose input is divided by inputs.
std::vector<Placement> megatron_axis(const Program& program, int ranks);

/// `along_model[axis]` is megatron_axis() for that axis; may be empty where no axis is used so.
Assignment laid_out(const Program& program, const Space& space, Decisions& decisions, std::span<const AxisUse> uses,
                    std::span<const std::vector<Placement>> along_model);

}  // namespace lockstep::plan
