// The search space on one mesh: the possible placements of each parameter and of the inputs, and well-known layouts
// among them. Pure.
#pragma once

#include <lockstep/global/global_tensor.h>
#include <lockstep/plan/cost/simulate.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::plan {

/// The placements that the user has given; they are kept even if they are slow.
struct Constraints {
  ModulePlan parameters;             ///< the first pattern that matches a parameter's name gives its placements
  std::optional<Placements> inputs;  ///< placements of each batch
  std::map<std::string, Placements> inputs_by_name{};  ///< of single inputs; `inputs` is given, too
};

/// The placements to choose from.
struct Space {
  std::vector<int> mesh_sizes;
  /// For each of Program::parameters, by axis: replicated, or sharded in one of its first two dimensions.
  std::vector<std::vector<std::vector<Placement>>> by_axis;
  std::vector<std::optional<Placements>> fixed;  ///< for each parameter: the placements given by the user
  std::optional<Placements> fixed_inputs;
  std::map<std::string, Placements> fixed_by_name;  ///< of single inputs
};

Space make_space(const Program& program, std::vector<int> mesh_sizes, const Constraints& constraints);

/// The placements of a batch that is sharded along the axes with the set bits of `mask`, and replicated along the
/// others.
Placements divided_along(std::size_t mask, std::size_t axes);

/// Whether the placements are possible: no part is empty.
bool may_lie(const TensorInfo& info, const Placements& placements, std::span<const int> mesh_sizes);

/// Whether the parts are also nearly equal, which well-known layouts require.
bool divides_well(const TensorInfo& info, const Placements& placements, std::span<const int> mesh_sizes);

/// The assignment with all values replicated, except those that the user has placed.
Assignment start_of(const Program& program, const Space& space, Decisions& decisions);

/// Gives the inputs these placements, as far as their first dimension has enough rows.
void place_inputs(const Program& program, const Space& space, const Placements& placements, Decisions& decisions,
                  Assignment& assignment);

/// Places parameter number `parameter` (of Program::parameters). False, and nothing changes, if the placements are not
/// possible or the user has given others.
bool place_parameter(const Program& program, const Space& space, std::size_t parameter, const Placements& placements,
                     Decisions& decisions, Assignment& assignment);

/// The sizes of meshes that have `devices` ranks on up to `most_axes` axes, each of more than one rank.
std::vector<std::vector<int>> mesh_shapes(int devices, std::size_t most_axes);

/// The names of a mesh's axes: "data" for axes that shard the inputs, "model" for all other axes; equal names are
/// numbered: "model1", "model2".
std::vector<std::string> axis_names(const Placements& inputs);

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
