// Files of plans: the writer and the reader of their JSON.
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/json.h>
#include <lockstep/plan/plan.h>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace lockstep::plan {
namespace {

/// The format version; increased when older files can no longer be read.
constexpr int kPlanFormat = 1;

using Json = nlohmann::ordered_json;

/// The values that must be equal on all ranks.
Json layout_of(const Plan& plan) {
  Json parameters = Json::object();
  for (const auto& [pattern, placements] : plan.parameters) parameters[pattern] = to_string(placements);
  Json layout{{"mesh", plan.mesh_sizes},
              {"mesh_names", plan.mesh_names},
              {"inputs", to_string(plan.inputs)},
              {"parameters", std::move(parameters)}};
  // The key is absent if the list is empty, as in files of earlier versions.
  for (const auto& [name, strategy] : plan.operators) layout["operators"][name] = strategy;
  for (const auto& [name, placements] : plan.inputs_by_name) layout["inputs_by_name"][name] = to_string(placements);
  return layout;
}

Json memory_json(const Memory& memory) {
  return {{"parameters", memory.parameters.value},
          {"gradients", memory.gradients.value},
          {"optimizer_state", memory.optimizer_state.value},
          {"activations", memory.activations.value},
          {"communication", memory.communication.value}};
}

Json traffic_json(const Traffic& traffic) {
  Json json = Json::object();
  for (std::size_t kind = 0; kind < kCollectives; ++kind) {
    if (traffic.count[kind] == 0) continue;
    json[std::string(name(static_cast<Collective>(kind)))] = {{"count", traffic.count[kind]},
                                                              {"bytes", traffic.bytes[kind].value}};
  }
  return json;
}

Json module_json(const ModuleRow& row) {
  Json parameters = Json::object();
  for (const auto& [name, placements] : row.parameters) parameters[name] = to_string(placements);
  Json json{{"module", row.module},
            {"parameters", std::move(parameters)},
            {"compute_s", row.compute.value},
            {"communication_s", row.communication.value},
            {"bytes", row.moved.value}};
  if (row.given) json["given"] = true;
  if (row.runner_up_cost) {
    json["runner_up"] = row.runner_up;
    json["runner_up_cost_s"] = row.runner_up_cost->value;
  }
  return json;
}

}  // namespace

bool is_predicted(const Plan& plan) { return plan.prediction.cost > Seconds{}; }

std::string plan_hash(const Plan& plan) {
  Sha256 hash;
  hash.update(layout_of(plan).dump());
  return hash.hex();
}

std::string plan_json(const Plan& plan) {
  Json alternatives = Json::array();
  for (const auto& each : plan.alternatives) {
    alternatives.push_back({{"name", each.name},
                            {"mesh", each.mesh_sizes},
                            {"cost_s", each.cost.value},
                            {"memory_bytes", each.memory.value},
                            {"fits", each.fits}});
  }
  Json modules = Json::array();
  for (const auto& each : plan.modules) modules.push_back(module_json(each));
  Json model = Json::object();
  for (const auto& each : plan.known) model[each.name] = each.sizes;
  const auto& predicted = plan.prediction;

  Json json{{"format", kPlanFormat}};
  json.update(layout_of(plan));
  json.update(Json{{"plan_hash", plan_hash(plan)}, {"cluster", plan.cluster}, {"devices", plan.devices}});
  if (!plan.mode.empty()) json["mode"] = plan.mode;
  if (is_predicted(plan)) {
    json.update(Json{{"cost_s", predicted.cost.value},
                     {"lower_bound_s", plan.lower_bound.value},
                     {"lower_bound_is_work_alone", plan.bound_is_work_alone},
                     {"optimal", plan.optimal},
                     {"time",
                      {{"compute_s", predicted.compute.value},
                       {"communication_s", predicted.communication.value},
                       {"redistribution_s", predicted.redistribution.value},
                       {"gradient_reduction_s", predicted.reduction.value},
                       {"gradient_reduction_waited_for_s", predicted.exposed.value}}},
                     {"memory_bytes", predicted.memory.total().value},
                     {"device_memory_bytes", plan.device_memory.value},
                     {"memory", memory_json(predicted.memory)},
                     {"collectives", traffic_json(predicted.traffic)},
                     {"alternatives", std::move(alternatives)},
                     {"search_s", plan.search_time.value},
                     {"trace_s", plan.trace_time.value},
                     {"modules", std::move(modules)}});
  }
  json["model"] = std::move(model);
  return json.dump(2) + "\n";
}

void save_plan(const Plan& plan, const std::filesystem::path& path) { write_file_atomically(path, plan_json(plan)); }

namespace {

using Json = nlohmann::ordered_json;

/// Reads a value; errors name its key.
template <typename T>
T member(const Json& json, const char* key) {
  try {
    return json.at(key).get<T>();
  } catch (const Json::type_error& error) {
    fail(ErrorKind::data, "plan", "\"{}\": {}", key, json_mistake(error));
  }
}

Memory read_memory(const Json& json) {
  return {.parameters = {member<double>(json, "parameters")},
          .gradients = {member<double>(json, "gradients")},
          .optimizer_state = {member<double>(json, "optimizer_state")},
          .activations = {member<double>(json, "activations")},
          .communication = {member<double>(json, "communication")}};
}

Traffic read_traffic(const Json& json) {
  Traffic traffic;
  for (std::size_t kind = 0; kind < kCollectives; ++kind) {
    const auto found = json.find(std::string(name(static_cast<Collective>(kind))));
    if (found == json.end()) continue;
    traffic.count[kind] = member<double>(*found, "count");
    traffic.bytes[kind] = {member<double>(*found, "bytes")};
  }
  return traffic;
}

Prediction read_prediction(const Json& json) {
  const auto& time = json.at("time");
  const auto seconds = [&](const char* key) { return Seconds{member<double>(time, key)}; };
  return {.cost = {member<double>(json, "cost_s")},
          .compute = seconds("compute_s"),
          .communication = seconds("communication_s"),
          .redistribution = seconds("redistribution_s"),
          .reduction = seconds("gradient_reduction_s"),
          .exposed = seconds("gradient_reduction_waited_for_s"),
          .memory = read_memory(json.at("memory")),
          .traffic = read_traffic(json.at("collectives")),
          .modules = {}};
}

ModuleRow read_module(const Json& json) {
  ModuleRow row{.module = member<std::string>(json, "module"),
                .parameters = {},
                .compute = {member<double>(json, "compute_s")},
                .communication = {member<double>(json, "communication_s")},
                .moved = {member<double>(json, "bytes")},
                .given = json.value("given", false),
                .runner_up = {},
                .runner_up_cost = {}};
  for (const auto& [name, placements] : json.at("parameters").items()) {
    row.parameters.emplace_back(name, parse_placements(placements.get<std::string>()));
  }
  if (json.contains("runner_up")) {
    row.runner_up = member<std::string>(json, "runner_up");
    row.runner_up_cost = Seconds{member<double>(json, "runner_up_cost_s")};
  }
  return row;
}

/// The keys that are absent in the file of a run.
void read_costs(const Json& json, Plan& plan) {
  plan.device_memory = {member<double>(json, "device_memory_bytes")};
  plan.prediction = read_prediction(json);
  plan.lower_bound = {member<double>(json, "lower_bound_s")};
  plan.bound_is_work_alone = json.value("lower_bound_is_work_alone", false);
  plan.optimal = member<bool>(json, "optimal");
  plan.search_time = {member<double>(json, "search_s")};
  plan.trace_time = {member<double>(json, "trace_s")};
  for (const auto& each : json.at("alternatives")) {
    plan.alternatives.push_back({.name = member<std::string>(each, "name"),
                                 .mesh_sizes = member<std::vector<int>>(each, "mesh"),
                                 .cost = {member<double>(each, "cost_s")},
                                 .memory = {member<double>(each, "memory_bytes")},
                                 .fits = member<bool>(each, "fits")});
  }
  for (const auto& each : json.at("modules")) plan.modules.push_back(read_module(each));
}

Plan plan_of(const Json& json) {
  Plan plan;
  plan.mesh_sizes = member<std::vector<int>>(json, "mesh");
  plan.mesh_names = member<std::vector<std::string>>(json, "mesh_names");
  plan.inputs = parse_placements(member<std::string>(json, "inputs"));
  for (const auto& [pattern, placements] : json.at("parameters").items()) {
    plan.parameters.emplace_back(pattern, parse_placements(placements.get<std::string>()));
  }
  if (json.contains("operators")) {
    for (const auto& [name, strategy] : json.at("operators").items()) {
      plan.operators.emplace_back(name, strategy.get<std::string>());
    }
  }
  if (json.contains("inputs_by_name")) {
    for (const auto& [name, placements] : json.at("inputs_by_name").items()) {
      plan.inputs_by_name.emplace_back(name, parse_placements(placements.get<std::string>()));
    }
  }
  plan.cluster = member<std::string>(json, "cluster");
  plan.devices = integer_of<int>(json.at("devices"));
  plan.mode = json.value("mode", "");
  if (json.contains("cost_s")) read_costs(json, plan);
  for (const auto& [name, sizes] : json.at("model").items()) {
    plan.known.push_back({.name = name, .sizes = sizes.get<std::vector<std::int64_t>>()});
  }
  return plan;
}

void check(const Plan& plan, const std::string& file) {
  const auto wrong = [&](const std::string& what) { throw Error(ErrorKind::config, "plan", what, {.file = file}); };
  const auto axes = plan.mesh_sizes.size();
  int ranks = 1;
  for (const int size : plan.mesh_sizes) {
    if (size < 1 || size > kMostDevices) wrong(fmt::format("an axis of the mesh has {} ranks", size));
    ranks *= size;
    if (ranks > kMostDevices) wrong(fmt::format("the mesh has more than {} ranks", kMostDevices));
  }
  if (axes == 0 || ranks != plan.devices || plan.mesh_names.size() != axes || plan.inputs.size() != axes) {
    wrong(fmt::format(
        "mesh, mesh_names and inputs must have one entry for each axis, and the sizes must multiply to devices ({})",
        plan.devices));
  }
  if (!plan.mode.empty() && plan.mode != "data_parallel" && plan.mode != "semi_auto") {
    wrong(fmt::format("\"mode\" is data_parallel or semi_auto, not {}", plan.mode));
  }
  for (const auto& [name, placements] : plan.inputs_by_name) {
    if (placements.size() != axes) {
      wrong(fmt::format("input \"{}\" has {} placements, the mesh {} axes", name, placements.size(), axes));
    }
  }
  for (const auto& [pattern, placements] : plan.parameters) {
    if (placements.size() != axes) {
      wrong(fmt::format("\"{}\" has {} placements, the mesh {} axes", pattern, placements.size(), axes));
    }
  }
}

}  // namespace

Plan read_plan(std::string_view json, const std::string& file) {
  try {
    const auto parsed = Json::parse(json);
    if (integer_of<int>(parsed.at("format")) != kPlanFormat) {
      throw Error(ErrorKind::config, "plan",
                  fmt::format("format {} is not {}, which this version reads; plan again", parsed.at("format").dump(),
                              kPlanFormat),
                  {.file = file});
    }
    auto plan = plan_of(parsed);
    check(plan, file);
    const auto hash = member<std::string>(parsed, "plan_hash");
    if (!hash.empty() && hash != plan_hash(plan)) {
      throw Error(
          ErrorKind::config, "plan",
          "plan_hash is not that of mesh, inputs and parameters: the plan was changed by hand or is damaged; to "
          "keep the changes, set plan_hash to \"\"",
          {.file = file});
    }
    return plan;
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::config, "plan",
                fmt::format("this is no plan as `lockstep plan --json` writes it: {}", json_mistake(error)),
                {.file = file});
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::config) throw;
    throw Error(ErrorKind::config, "plan", error.message(), {.file = file});
  }
}

Plan load_plan(const std::filesystem::path& path) {
  const auto text = read_file(path);
  if (!text) {
    fail(ErrorKind::config, "plan",
         "cannot read {}; give a file that `lockstep plan --save` or parallel.strategy_ckpt_save_file wrote",
         path.string());
  }
  return read_plan(*text, path.string());
}

}  // namespace lockstep::plan
