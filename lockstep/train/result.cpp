#include <lockstep/base/atomic_file.h>
#include <lockstep/train/result.h>

#include <nlohmann/json.hpp>

namespace lockstep::train {

void write_result(const std::filesystem::path& file, const RunResult& result, const RunConfig& config) {
  auto evaluations = nlohmann::ordered_json::array();
  for (const auto& e : result.evaluations) {
    evaluations.push_back({{"epoch", e.epoch}, {"step", e.step}, {"accuracy", e.accuracy}, {"loss", e.loss}});
  }
  const auto& per_rank = config.data.batch_size;
  const nlohmann::ordered_json json{
      {"eval_accuracy", result.evaluation.accuracy},
      {"eval_loss", result.evaluation.loss},
      {"eval_samples", result.evaluation.samples},
      {"samples_per_s", result.samples_per_s},
      {"params_sha256", result.params_sha256},
      {"world_size", result.world_size},
      {"steps", result.steps},
      {"epochs", result.epochs},
      {"seconds", result.seconds},
      {"backend", result.backend},
      {"device", result.device},
      {"model", config.model.name},
      {"data", config.data.name},
      {"batch_size", per_rank ? nlohmann::ordered_json(*per_rank) : nlohmann::ordered_json()},
      {"global_batch_size", result.global_batch_size},
      {"evaluations", std::move(evaluations)}};
  write_file_atomically(file, json.dump(2) + "\n");
}

}  // namespace lockstep::train
