// The fields of a run's result as JSON: metrics of the last evaluation, throughput, parameter hash, all evaluations.
#include <lockstep/base/atomic_file.h>
#include <lockstep/train/result.h>
#include <lockstep/train/served/served_parameters.h>

#include <nlohmann/json.hpp>

namespace lockstep::train {

void write_result(const std::filesystem::path& file, const RunResult& result, const RunConfig& config) {
  auto evaluations = nlohmann::ordered_json::array();
  for (const auto& e : result.evaluations) {
    nlohmann::ordered_json one{{"epoch", e.epoch}, {"step", e.step}};
    for (const auto& [name, value] : e.metrics) one[name] = value;
    one["loss"] = e.loss;
    evaluations.push_back(std::move(one));
  }
  const auto& per_rank = config.data.batch_size;
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (result.evaluation) {
    for (const auto& [name, value] : result.evaluation->metrics) json["eval_" + name] = value;
    json["eval_loss"] = result.evaluation->loss;
    json["eval_samples"] = result.evaluation->samples;
    // Also under the name alone, which users of MindOCR and MMEngine expect.
    for (const auto& [name, value] : result.evaluation->metrics) json.emplace(name, value);
  }
  json["samples_per_s"] = result.samples_per_s;
  json["params_sha256"] = result.params_sha256;
  json["world_size"] = result.world_size;
  json["steps"] = result.steps;
  if (config.loss_scaler.type != "none") json["skipped_steps"] = result.skipped_steps;
  json["epochs"] = result.epochs;
  json["seconds"] = result.seconds;
  if (is_served_mode(config.parallel) && most_ahead(config.parallel.server)) {
    json["consistency"] = config.parallel.server.consistency;  // another run has different results
  }
  if (!result.stopped.empty()) json["stopped"] = result.stopped;
  json["backend"] = result.backend;
  json["device"] = result.device;
  json["model"] = config.model.name;
  json["data"] = config.data.name;
  json["batch_size"] = per_rank ? nlohmann::ordered_json(*per_rank) : nlohmann::ordered_json();
  json["global_batch_size"] = result.global_batch_size;
  json["evaluations"] = std::move(evaluations);
  write_file_atomically(file, json.dump(2) + "\n");
}

}  // namespace lockstep::train
