// A plan: the mesh, the placements of parameters and inputs, the predicted cost, and the alternatives. Pure.
#pragma once

#include <lockstep/global/module_plan.h>
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
  std::string runner_up;                  ///< such as "weight S0  bias R"; empty where there is no other way
  std::optional<Seconds> runner_up_cost;  ///< of the whole step, if only this module lay so
};

/// A parameter as it was when the plan was made.
struct KnownParameter {
  std::string name;
  std::vector<std::int64_t> sizes;
  friend bool operator==(const KnownParameter&, const KnownParameter&) = default;
};

struct Plan {
  std::vector<int> mesh_sizes;
  std::vector<std::string> mesh_names;  ///< "data" where the batch is divided, "model" elsewhere
  Placements inputs;                    ///< of each batch; Shard(0) or Replicate()
  ModulePlan parameters;                ///< those that fit no pattern are replicated
  std::string cluster;                  ///< its name
  int devices = 1;

  Prediction prediction;  ///< without modules
  Bytes device_memory{};
  Seconds lower_bound{};             ///< no plan on the meshes considered can be faster
  bool bound_is_work_alone = false;  ///< the bound is the work evenly divided, without any sending: weak
  bool optimal = false;              ///< proven: the cost is the lower bound
  std::vector<Alternative> alternatives;
  std::vector<ModuleRow> modules;
  std::vector<KnownParameter> known;
  Seconds search_time{};
  Seconds trace_time{};  ///< for whoever traced to fill in
};

/// nullptr where there is none of that name.
const Alternative* find_alternative(const Plan& plan, std::string_view name);

/// Every rank has all parameters and a part of each batch.
bool is_data_parallel(const Plan& plan);

/// SHA-256 of what ranks must agree on: mesh, inputs and parameters, in hexadecimal.
std::string plan_hash(const Plan& plan);

/// Readable JSON: cost_s, memory_bytes, search_s, trace_s, plan_hash, alternatives, ...
std::string plan_json(const Plan& plan);

/// Reads it back. `file` names it in messages. Error(config) for anything that is not a plan, a hash that does not fit
/// included: then it was edited by hand, and the message says how to keep it.
Plan read_plan(std::string_view json, const std::string& file);

void save_plan(const Plan& plan, const std::filesystem::path& path);
Plan load_plan(const std::filesystem::path& path);

/// What has changed since the plan was made, a sentence each: parameters that are new, gone, or of other sizes. The
/// plan can still be used, but may not be the best any more. Patterns that fit nothing now are removed from it, and so
/// are placements that a parameter's new sizes do not allow.
std::vector<std::string> adapt(Plan& plan, const std::vector<KnownParameter>& now);

/// Exact names as patterns: "blocks.*.fc1.weight" where all that fit it lie alike.
ModulePlan shortened(const std::vector<std::pair<std::string, Placements>>& parameters);

}  // namespace lockstep::plan
