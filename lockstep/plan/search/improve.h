// Local search: one change to the layout of a module at a time, kept when less memory is missing or the step gets
// faster. Pure.
#pragma once

#include <lockstep/plan/search/space.h>

#include <array>
#include <vector>

namespace lockstep::plan {

/// Parameters that change together: those of one module. Equal modules of repeated layers are separate groups.
struct ModuleGroup {
  std::size_t module = 0;
  std::vector<std::size_t> parameters;  ///< indices into Program::parameters
};
std::vector<ModuleGroup> module_groups(const Program& program);

/// The same groups, merged if their modules differ only in their index and have equal shapes.
std::vector<ModuleGroup> kinds_of(const Program& program, const std::vector<ModuleGroup>& groups);

/// The ways to lay out a module along one axis: replicated, sharded by outputs (with or without biases), or by inputs.
enum class Way { whole, outputs, outputs_alone, inputs };
inline constexpr std::array kWays{Way::whole, Way::outputs, Way::outputs_alone, Way::inputs};

/// Lays out a group in this way; false if nothing changes.
bool lay(const Program& program, const Space& space, Decisions& decisions, const ModuleGroup& group, std::size_t axis,
         Way way, Assignment& assignment);

/// The assignments that differ from `now` in the way in which a module is laid out along one axis. Only those that
/// `space` allows, and without `now` itself.
std::vector<Assignment> other_ways(const Program& program, const Space& space, Decisions& decisions,
                                   const ModuleGroup& group, std::size_t axis, const Assignment& now);

/// The criterion for comparing plans: first the missing memory, then the time.
struct Score {
  Bytes memory_shortage{};
  Seconds cost{};
};
Score score_of(const Prediction& prediction, const CostModel& model);
/// Whether `a` is better than `b` by more than rounding errors.
bool is_better(const Score& a, const Score& b);

struct Improved {
  Assignment assignment;
  Prediction prediction;
};

/// Whether modules that differ only in their index may get different layouts.
enum class Layers { each, alike };

/// Changes the layout of modules, of equal modules of all layers together, of neighbours, and of the inputs, until no
/// change helps or `budget` operators were evaluated. Subtracts the evaluated operators from `budget`.
Improved improve(const Program& program, const Space& space, Decisions& decisions, Assignment start, Layers layers,
                 std::size_t& budget);

}  // namespace lockstep::plan
