// The search for the best plan: the mesh, and the placements of each parameter and the batch. Pure and deterministic.
#pragma once

#include <lockstep/plan/cluster.h>
#include <lockstep/plan/graph.h>
#include <lockstep/plan/plan.h>
#include <lockstep/plan/search/exact.h>
#include <lockstep/plan/search/space.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::plan {

/// The name of the plan itself among its alternatives.
inline constexpr std::string_view kBest = "auto";
/// The others that have names.
inline constexpr std::array<std::string_view, 3> kAlternatives{"data_parallel", "zero3", "megatron"};

struct SearchOptions {
  std::optional<std::vector<int>> mesh{};  ///< sizes; without it every shape is tried
  std::size_t most_axes = 3;               ///< of meshes that are tried
  Constraints constraints{};               ///< with placements for as many axes as the mesh has
  std::vector<std::string> compare{kAlternatives.begin(), kAlternatives.end()};  ///< alternatives to show
  std::string choose{kBest};  ///< the plan is this alternative's instead
  double worthwhile = 0;  ///< the share of data parallel's step that the best must save, or data parallel is the plan
  std::size_t budget = 1'500'000;  ///< operators looked at while improving; more finds more, and takes longer
  ExactBudget exact{.rows = 400'000, .decisions = 4'000, .problems = 200};  ///< for the exact search on the best mesh
};

/// The fastest plan found that fits the memory of the cluster's devices; never slower than data parallel where that
/// fits. Error(invalid_argument) for a mesh that is not all of the cluster, and for alternatives with unknown names.
/// Error(unsupported) when nothing fits: how much is missing, and on how many devices the model would fit.
Plan search(const Graph& graph, const Cluster& cluster, const SearchOptions& options = {});

/// What a step costs when the model is laid out in this way.
Prediction predict(const Graph& graph, const Cluster& cluster, const std::vector<int>& mesh_sizes,
                   const Placements& inputs, const ModulePlan& parameters);

}  // namespace lockstep::plan
