// The search space on one mesh: the possible placements of each parameter and of the inputs. Pure.
#pragma once

#include <lockstep/global/module_plan.h>
#include <lockstep/plan/cost/simulate.h>

#include <optional>
#include <vector>

namespace lockstep::plan {

/// The placements that the user has given; kept whatever they cost.
struct Constraints {
  ModulePlan parameters;             ///< the first pattern that fits a parameter's name says how it lies
  std::optional<Placements> inputs;  ///< of each batch
};

struct Space {
  std::vector<int> mesh_sizes;
  /// For each of Program::parameters, by axis: replicated, or divided in one of its first two dimensions.
  std::vector<std::vector<std::vector<Placement>>> by_axis;
  std::vector<std::optional<Placements>> fixed;  ///< for each parameter: by the user
  std::optional<Placements> fixed_inputs;
};

Space make_space(const Program& program, std::vector<int> mesh_sizes, const Constraints& constraints);

/// Whether that many axes may divide these dimensions: no part would be empty.
bool may_lie(const TensorInfo& info, const Placements& placements, std::span<const int> mesh_sizes);

/// Whether their parts are nearly equal, too, as those of well-known layouts are.
bool divides_well(const TensorInfo& info, const Placements& placements, std::span<const int> mesh_sizes);

/// All values replicated, but those that the user has placed.
Assignment start_of(const Program& program, const Space& space, Decisions& decisions);

/// Inputs lie as `placements` say, as far as their first dimension has enough rows.
void place_inputs(const Program& program, const Space& space, const Placements& placements, Decisions& decisions,
                  Assignment& assignment);

/// Places parameter number `parameter` (of Program::parameters). False, and nothing changes, where it may not lie so or
/// the user has decided otherwise.
bool place_parameter(const Program& program, const Space& space, std::size_t parameter, const Placements& placements,
                     Decisions& decisions, Assignment& assignment);

/// The sizes of meshes that have `devices` ranks on up to `most_axes` axes, each of more than one rank.
std::vector<std::vector<int>> mesh_shapes(int devices, std::size_t most_axes);

/// "data" for axes along which the inputs are divided, "model" for the others; where several axes have one name, they
/// are numbered: "model1", "model2".
std::vector<std::string> axis_names(const Placements& inputs);

}  // namespace lockstep::plan
