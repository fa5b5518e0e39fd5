// The JSON form of a run's state, which also reads the form of older versions, and the settings that a resume compares.
#include <lockstep/base/error.h>
#include <lockstep/base/json.h>
#include <lockstep/train/checkpoint/run_state.h>
#include <lockstep/train/keys/config_keys.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace lockstep::train {
namespace {

using Json = nlohmann::ordered_json;

Json to_object(const Evaluation& e) {
  Json json{{"epoch", e.epoch}, {"step", e.step},       {"metrics", e.metrics},
            {"loss", e.loss},   {"samples", e.samples}, {"seconds", e.seconds}};
  if (!e.weights.empty()) json["weights"] = e.weights;
  return json;
}

// JSON has no NaN: it is written as null.
double number(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

Evaluation to_evaluation(const Json& json) {
  Evaluation e{.epoch = json.at("epoch"),
               .step = json.at("step"),
               .loss = number(json.at("loss")),
               .samples = json.at("samples"),
               .seconds = json.at("seconds"),
               .weights = json.value("weights", "")};
  // Older programs had only one metric.
  if (json.contains("accuracy")) e.metrics.emplace("accuracy", json["accuracy"].get<double>());
  if (!json.contains("metrics")) return e;
  for (const auto& [name, value] : json["metrics"].items()) e.metrics.emplace(name, number(value));
  return e;
}

Json to_object(const StepReport& step) {
  return {{"epoch", step.epoch}, {"step", step.step},       {"loss", step.loss.value_or(0)},
          {"lr", step.lr},       {"samples", step.samples}, {"seconds", step.seconds},
          {"steps", step.steps}};
}

Json to_object(const LossScale& scale) {
  return {{"value", scale.value},
          {"steps_without_overflow", scale.steps_without_overflow},
          {"skipped", scale.skipped},
          {"skipped_in_a_row", scale.skipped_in_a_row}};
}

LossScale to_loss_scale(const Json& json) {
  return {json.at("value"), json.at("steps_without_overflow"), json.at("skipped"), json.at("skipped_in_a_row")};
}

StepReport to_step(const Json& json) {
  StepReport step;
  step.epoch = json.at("epoch");
  step.step = json.at("step");
  step.loss = json.at("loss").get<double>();
  step.lr = json.at("lr");
  step.samples = json.at("samples");
  step.seconds = json.at("seconds");
  if (json.contains("steps")) step.steps = json["steps"];
  return step;
}

double to_seconds(const Json& json) {
  constexpr double kMost = 1e9;  // 30 years, which nanoseconds can count
  const auto seconds = json.get<double>();
  if (seconds >= 0 && seconds <= kMost) return seconds;
  fail(ErrorKind::data, "checkpoint", "a time of {} s in its state is not what a run writes", seconds);
}

std::string text(bool value) { return value ? "true" : "false"; }

}  // namespace

std::string to_json(const RunState& state) {
  auto evaluations = Json::array();
  for (const auto& evaluation : state.evaluations) evaluations.push_back(to_object(evaluation));
  Json object{{"step", state.step},        {"epoch", state.epoch},     {"step_in_epoch", state.step_in_epoch},
              {"samples", state.samples},  {"seconds", state.seconds}, {"evaluations", std::move(evaluations)},
              {"settings", state.settings}};
  if (!state.configuration.empty()) object["configuration"] = state.configuration;
  if (state.loss_scale.value > 0) object["loss_scale"] = to_object(state.loss_scale);
  if (!state.callbacks.empty()) object["callbacks"] = state.callbacks;
  if (!state.stopped.empty()) object["stopped"] = state.stopped;
  if (!state.times.empty()) object["times"] = state.times;
  if (state.logged) object["logged"] = to_object(*state.logged);
  return object.dump();
}

RunState parse_run_state(std::string_view json) {
  try {
    const auto object = Json::parse(json);
    RunState state{object.at("step"),
                   object.at("epoch"),
                   object.at("step_in_epoch"),
                   object.at("samples"),
                   object.at("seconds"),
                   {},
                   {},
                   {}};
    for (const auto& evaluation : object.at("evaluations")) state.evaluations.push_back(to_evaluation(evaluation));
    for (const auto& [key, value] : object.at("settings").items()) state.settings[key] = value;
    if (object.contains("configuration")) {
      for (const auto& [key, value] : object["configuration"].items()) state.configuration[key] = value;
    }
    if (object.contains("loss_scale")) state.loss_scale = to_loss_scale(object["loss_scale"]);
    if (object.contains("callbacks")) {
      for (const auto& [key, value] : object["callbacks"].items()) state.callbacks[key] = value;
    }
    if (object.contains("stopped")) state.stopped = object["stopped"];
    if (object.contains("times")) {
      for (const auto& [part, seconds] : object["times"].items()) state.times[part] = to_seconds(seconds);
    }
    if (object.contains("logged")) state.logged = to_step(object["logged"]);
    return state;
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::data, "checkpoint", "its state is not what a run writes: {}", json_mistake(error));
  }
}

Settings run_settings(const ResolvedRun& config, int shares, std::int64_t train_samples) {
  return {{"system.seed", std::to_string(config.system.seed)},
          {"model.name", config.model.name},
          {"data.name", config.data.name},
          {"data.shuffle", text(config.data.shuffle)},
          {"data.shuffle_seed", std::to_string(shuffle_seed_of(config))},
          {"data.remainder", config.data.remainder},
          {"training pictures", std::to_string(train_samples)},
          {std::string(kGlobalBatch), std::to_string(global_batch_size_of(config.data, shares))},
          {"train.accumulate", std::to_string(config.train.accumulate)},
          {"optimizer.name", config.optimizer.name}};
}

std::optional<ResumePoint> find_resume_point(const ResolvedRun& config, const Group& group) {
  return state::find_resume_point(checkpoint_folder_of(config), config.checkpoint.resume, group);
}

}  // namespace lockstep::train
