// The search for the best plan: the mesh, and the placements of each parameter and the batch. Pure and deterministic.
#pragma once

#include <lockstep/plan/cluster.h>
#include <lockstep/plan/graph.h>
#include <lockstep/plan/plan.h>
#include <lockstep/plan/search/exact.h>
#include <lockstep/plan/search/space.h>

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::plan {

/// The name of the plan itself among its alternatives.
inline constexpr std::string_view kBest = "auto";
/// The names of the alternative layouts.
inline constexpr std::array<std::string_view, 3> kAlternatives{"data_parallel", "zero3", "megatron"};

struct SearchOptions {
  std::optional<std::vector<int>> mesh{};  ///< sizes; without it every shape is tried
  std::size_t most_axes = 3;               ///< largest number of axes of the tried meshes
  Constraints constraints{};               ///< their placements have one entry for each axis of the mesh
  /// Instead of `constraints`, if the mesh is not given: the constraints on a mesh of these sizes; nullopt: such a mesh
  /// cannot satisfy them.
  std::function<std::optional<Constraints>(const std::vector<int>& mesh_sizes)> constraints_on{};
  std::vector<std::string> compare{kAlternatives.begin(), kAlternatives.end()};  ///< alternatives to show
  std::string choose{kBest};  ///< the alternative to use as the plan; kBest: the best
  double worthwhile = 0;  ///< the fraction of data parallel's time that the best plan must save; otherwise the plan is
                          ///< data parallel
  std::size_t budget = 1'500'000;  ///< operators evaluated by local search; a larger budget finds better plans and
                                   ///< takes longer
  ExactBudget exact{.rows = 400'000, .decisions = 4'000, .problems = 200};  ///< for the exact search on the best mesh
};

/// The fastest plan found that fits the memory of the cluster's devices; never slower than data parallel where that
/// fits. Error(invalid_argument) for a mesh that does not have all devices of the cluster, and for unknown names of
/// alternatives. Error(unsupported) when no layout fits: the message gives the missing memory, and the number of
/// devices that would suffice.
Plan search(const Graph& graph, const Cluster& cluster, const SearchOptions& options = {});

/// The shapes of meshes that the search may try. Error(invalid_argument) where none is possible.
std::vector<std::vector<int>> shapes_of(const Cluster& cluster, const SearchOptions& options);

/// The predicted cost of a step with this layout.
Prediction predict(const Graph& graph, const Cluster& cluster, const std::vector<int>& mesh_sizes,
                   const Placements& inputs, const ModulePlan& parameters);

}  // namespace lockstep::plan
