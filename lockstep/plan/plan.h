// A plan: the mesh, the placements of parameters and inputs, the predicted cost, and the alternatives. Pure.
#pragma once

#include <lockstep/global/global_tensor.h>
#include <lockstep/plan/cluster.h>
#include <lockstep/plan/cost/simulate.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::plan {

/// An alternative layout, shown beside the plan.
struct Alternative {
  std::string name;  ///< one of kAlternatives, or kBest for the plan itself (search.h)
  std::vector<int> mesh_sizes;
  Seconds cost{};
  Bytes memory{};
  bool fits = true;
};

/// The placements of a module's parameters, and the second best ones.
struct ModuleRow {
  std::string module;
  std::vector<std::pair<std::string, Placements>> parameters;  ///< "weight", "bias"
  Seconds compute{};
  Seconds communication{};
  Bytes moved{};                          ///< bytes in collectives
  bool given = false;                     ///< the user has given these placements
  std::string runner_up;                  ///< such as "weight S0  bias R"; empty if there is no alternative
  std::optional<Seconds> runner_up_cost;  ///< cost of the whole step, if only this module is changed
};

/// A parameter as it was when the plan was made.
struct KnownParameter {
  std::string name;
  std::vector<std::int64_t> sizes;
  friend bool operator==(const KnownParameter&, const KnownParameter&) = default;
};

struct Plan {
  std::vector<int> mesh_sizes;
  std::vector<std::string> mesh_names;                         ///< "data" where the batch is divided, "model" elsewhere
  Placements inputs;                                           ///< placements of the inputs: Shard(0) or Replicate()
  ModulePlan parameters;                                       ///< parameters that match no pattern are replicated
  std::vector<std::pair<std::string, std::string>> operators;  ///< strategies that were given, as text, by name
  std::vector<std::pair<std::string, Placements>> inputs_by_name;  ///< of inputs that are divided in another way
  std::string mode;     ///< of a run that used it: data_parallel or semi_auto; empty: only planned
  std::string cluster;  ///< name of the cluster
  int devices = 1;

  Prediction prediction;  ///< predicted cost of the step; its list of modules is empty; all 0 in the file of a run
  Bytes device_memory{};
  Seconds lower_bound{};             ///< no plan on the considered meshes can be faster
  bool bound_is_work_alone = false;  ///< the bound is only the evenly divided work without communication: a weak bound
  bool optimal = false;              ///< proven: the cost is the lower bound
  std::vector<Alternative> alternatives;
  std::vector<ModuleRow> modules;
  std::vector<KnownParameter> known;
  Seconds search_time{};
  Seconds trace_time{};  ///< filled in by the caller that traced
};

/// The alternative of this name; nullptr if there is none.
const Alternative* find_alternative(const Plan& plan, std::string_view name);

/// Whether the plan has a predicted cost; the file of a run has no prediction.
bool is_predicted(const Plan& plan);

/// Whether every rank has all parameters and a part of each batch.
bool is_data_parallel(const Plan& plan);

/// The SHA-256, in hexadecimal, of the values that must be equal on all ranks: mesh, inputs and parameters.
std::string plan_hash(const Plan& plan);

/// The plan as readable JSON: cost_s, memory_bytes, search_s, trace_s, plan_hash, alternatives, ...
std::string plan_json(const Plan& plan);

/// Parses the JSON of a plan. `file` is its name in messages. Error(config) if it is not a plan, or if its hash does
/// not match: then it was edited by hand, and the message explains how to keep the edit.
Plan read_plan(std::string_view json, const std::string& file);

void save_plan(const Plan& plan, const std::filesystem::path& path);
Plan load_plan(const std::filesystem::path& path);

/// Adapts a plan to a changed module. Returns a sentence for each change since the plan was made: new or removed
/// parameters, and other sizes. The plan can still be used, but may no longer be the best. Removes patterns that match
/// no parameter, and placements that a parameter's new sizes do not allow.
std::vector<std::string> adapt(Plan& plan, const std::vector<KnownParameter>& now);

/// Converts exact names to patterns: "blocks.*.fc1.weight" if all parameters that match it have equal placements.
ModulePlan shortened(const std::vector<std::pair<std::string, Placements>>& parameters);

}  // namespace lockstep::plan
