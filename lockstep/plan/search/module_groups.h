// Groups of parameters with a common layout, and the possible layouts. Pure.
#pragma once

#include <lockstep/plan/search/space.h>

#include <array>
#include <vector>

namespace lockstep::plan {

/// Parameters that change together: those of one module. Equal modules of layers that repeat are apart here.
struct ModuleGroup {
  std::size_t module = 0;
  std::vector<std::size_t> parameters;  ///< indices into Program::parameters
};
std::vector<ModuleGroup> module_groups(const Program& program);

/// The same, but those whose modules differ in numbers only, and have equal shapes, are one group.
std::vector<ModuleGroup> kinds_of(const Program& program, const std::vector<ModuleGroup>& groups);

/// Along one axis.
enum class Way { whole, outputs, outputs_alone, inputs };
inline constexpr std::array kWays{Way::whole, Way::outputs, Way::outputs_alone, Way::inputs};

/// Lays a group out so; false where nothing changes.
bool lay(const Program& program, const Space& space, Decisions& decisions, const ModuleGroup& group, std::size_t axis,
         Way way, Assignment& assignment);

/// The ways to lay out a module along one axis, the others staying as they are in `now`: whole, by outputs (its biases
/// too), by inputs. Only what `space` allows; each as an assignment. `now` itself is not among them.
std::vector<Assignment> other_ways(const Program& program, const Space& space, Decisions& decisions,
                                   const ModuleGroup& group, std::size_t axis, const Assignment& now);

}  // namespace lockstep::plan
