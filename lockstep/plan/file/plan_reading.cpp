// The reader of plans in JSON.
#include <lockstep/base/error.h>
#include <lockstep/base/file_text.h>
#include <lockstep/base/json_integer.h>
#include <lockstep/base/json_words.h>
#include <lockstep/plan/file/plan_format.h>
#include <lockstep/plan/plan.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lockstep::plan {
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

Plan plan_of(const Json& json) {
  Plan plan;
  plan.mesh_sizes = member<std::vector<int>>(json, "mesh");
  plan.mesh_names = member<std::vector<std::string>>(json, "mesh_names");
  plan.inputs = parse_placements(member<std::string>(json, "inputs"));
  for (const auto& [pattern, placements] : json.at("parameters").items()) {
    plan.parameters.emplace_back(pattern, parse_placements(placements.get<std::string>()));
  }
  plan.cluster = member<std::string>(json, "cluster");
  plan.devices = integer_of<int>(json.at("devices"));
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
    wrong(
        fmt::format("mesh, mesh_names and inputs have one entry for each axis, and the sizes multiply to devices ({})",
                    plan.devices));
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
    fail(ErrorKind::config, "plan", "cannot read {}; give a file that `lockstep plan --json` wrote", path.string());
  }
  return read_plan(*text, path.string());
}

}  // namespace lockstep::plan
