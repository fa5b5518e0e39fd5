// The result of a run: metrics of the last evaluation, throughput, parameter hash; its files after the last step, and
// result.json, for programs that read it.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/status_page.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/texts.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/state/sharded/load.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/output/console.h>
#include <lockstep/train/result.h>
#include <lockstep/train/served/served_tables.h>

#include <fmt/format.h>
#include <torch/torch.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <functional>
#include <utility>

namespace lockstep::train {
namespace {

// Different replicas mean an undetected error in training: no result is better than a wrong one.
void require_equal_replicas(const std::string& hash, const Group& group) {
  auto own = torch::empty({static_cast<std::int64_t>(hash.size())}, torch::kByte);
  std::memcpy(own.data_ptr(), hash.data(), hash.size());
  const auto all = all_gather(own.unsqueeze(0), group);
  for (int rank = 0; rank < group.size(); ++rank) {
    if (torch::equal(all[rank], all[0])) continue;
    fail(ErrorKind::mismatch, "train", "the parameters of rank {} differ from those of rank 0 after training", rank);
  }
}

// The hash of the whole model. Only rank 0 reads the tensors on servers.
std::string hash_of_model(const Session& session, const NamedTensors& model_state, const Group& group) {
  auto own = sha256_of(model_state);
  require_equal_replicas(own, group);
  const auto distant = session.distant_tensors();
  if (distant.empty()) return own;
  return share_text(group.rank() == 0 ? sha256_of(model_state, distant) : "", group);
}

nlohmann::ordered_json to_object(const TimeDivision::WaitOfRank& wait) {
  return {{"rank", wait.rank}, {"s", wait.seconds}};
}

void add_times(nlohmann::ordered_json& json, const TimeDivision& times) {
  auto& parts = json["time"] = {{"wall_s", times.wall}};
  for (const auto part : kTimeParts) parts[fmt::format("{}_s", part)] = times.parts.at(std::string(part));
  json["ettr"] = times.ettr();
  if (times.longest_wait) json["longest_wait"] = to_object(*times.longest_wait);
  if (times.shortest_wait) json["shortest_wait"] = to_object(*times.shortest_wait);
}

/// Writes the file as a whole or not at all. Error(io) naming it.
void write_result(const std::filesystem::path& file, const RunResult& result, const ResolvedRun& config) {
  auto evaluations = nlohmann::ordered_json::array();
  for (const auto& e : result.evaluations) {
    nlohmann::ordered_json one{{"epoch", e.epoch}, {"step", e.step}};
    for (const auto& [name, value] : e.metrics) one[name] = value;
    one["loss"] = e.loss;
    evaluations.push_back(std::move(one));
  }
  const auto& per_rank = config.data.batch_size;
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (result.evaluation) add_evaluation(json, *result.evaluation);
  json["samples_per_s"] = result.samples_per_s;
  json["params_sha256"] = result.params_sha256;
  json["world_size"] = result.world_size;
  json["steps"] = result.steps;
  if (config.loss_scaler.type != "none") json["skipped_steps"] = result.skipped_steps;
  json["epochs"] = result.epochs;
  json["seconds"] = result.seconds;
  add_times(json, result.times);
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

}  // namespace

double TimeDivision::ettr() const {
  double effective = 0;
  for (const auto part : kPartsOfSteps) {
    const auto found = parts.find(kTimeParts.at(static_cast<std::size_t>(part)));
    if (found != parts.end()) effective += found->second;
  }
  return wall > 0 ? effective / wall : 0;
}

void add_evaluation(nlohmann::ordered_json& json, const Evaluation& evaluation) {
  for (const auto& [name, value] : evaluation.metrics) json["eval_" + name] = value;
  json["eval_loss"] = evaluation.loss;
  json["eval_samples"] = evaluation.samples;
  for (const auto& [name, value] : evaluation.metrics) json.emplace(name, value);
}

RunResult make_result(Session& session, const NamedTensors& model_state, const Group& group) {
  const auto& state = session.state();
  auto hash = hash_of_model(session, model_state, group);
  return {.evaluation = state.evaluations.empty() ? std::nullopt : std::optional(state.evaluations.back()),
          .evaluations = state.evaluations,
          .samples_per_s = state.seconds > 0 ? static_cast<double>(state.samples) / state.seconds : 0.0,
          .params_sha256 = std::move(hash),
          .world_size = group.size(),
          .global_batch_size = session.global_batch_size(),
          .steps = state.step,
          .skipped_steps = state.loss_scale.skipped,
          .epochs = state.epoch,
          .seconds = state.seconds,
          .stopped = state.stopped,
          .times = session.divide_time(),
          .backend = std::string(group.backend()),
          .device = session.device().str()};
}

void leave_results(const ResolvedRun& config, const WorkDir& work_dir, const NamedTensors& model_state,
                   const std::vector<RemoteTensor>& distant, const RunResult& result, bool lacks_checkpoint) {
  std::optional<Error> failed;  // the first error; files for which there is room are still written
  const auto leave = [&](const std::function<void()>& write) {
    const auto problem = problem_of(write);
    if (problem && !failed) failed = problem;
  };
  if (config.checkpoint.export_weights) {
    leave([&] {
      save_safetensors(work_dir.weights(), model_state, distant,
                       {{"model", config.model.name}, {"params_sha256", result.params_sha256}});
    });
    const auto* part = find_part(config.parts->models, config.model.name);
    if (part != nullptr && part->save && config.model.options.part() == part->name) {
      leave([&] { part->save(options_of(config.model, *part), model_state, config.system.work_dir); });
    }
  }
  leave([&] { write_result(work_dir.result(), result, config); });
  if (!failed) return;
  throw Error(
      failed->kind(), failed->where(),
      fmt::format("{}{}{}. The run is trained to its end{}", failed->message(), result.evaluation ? ": " : "",
                  result.evaluation ? values_text(*result.evaluation) : "",
                  !saves_checkpoints(config.checkpoint) ? ""
                  : lacks_checkpoint ? ", but its weights are in no checkpoint, so they are lost: when there is free "
                                       "space, the same command trains again what the newest checkpoint lacks"
                                     : ", and its last checkpoint has the weights: when there is free space, the same "
                                       "command writes the files that are missing"),
      failed->position());
}

}  // namespace lockstep::train
