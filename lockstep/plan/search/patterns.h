// Well-known layouts of a model on an axis of a mesh, as starting points of the search and for comparison. Pure.
#pragma once

#include <lockstep/plan/search/space.h>

#include <span>
#include <vector>

namespace lockstep::plan {

/// The use of an axis of the mesh.
enum class AxisUse {
  data,   ///< the batch is sharded, parameters are replicated
  zero,   ///< the batch is sharded, and each parameter in its largest dimension
  wide,   ///< the batch is sharded, and the outputs of layers that have more weights than inputs
  model,  ///< the batch is replicated; layers are alternately sharded by outputs and by inputs, as in Megatron
};
inline constexpr std::size_t kAxisUses = 4;

/// The placement of each parameter along an axis of `ranks` ranks in Megatron's layout, found by following the
/// activations: a layer with a replicated input is sharded by outputs, a layer with a sharded input by inputs.
std::vector<Placement> megatron_axis(const Program& program, int ranks);

/// `along_model[axis]` is megatron_axis() for that axis; may be empty if no axis has AxisUse::model.
Assignment laid_out(const Program& program, const Space& space, Decisions& decisions, std::span<const AxisUse> uses,
                    std::span<const std::vector<Placement>> along_model);

}  // namespace lockstep::plan
