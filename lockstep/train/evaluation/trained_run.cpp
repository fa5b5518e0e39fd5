// The model, the task and the transforms of a configuration, without the session of a run.
#include <lockstep/train/evaluation/measured_config.h>
#include <lockstep/train/modes/run_model.h>
#include <lockstep/train/program.h>
#include <lockstep/train/resources/run_data.h>
#include <lockstep/train/trained_run.h>

#include <torch/torch.h>

#include <utility>

namespace lockstep::train {

TrainedRun::TrainedRun(const std::filesystem::path& config, const std::string& weights,
                       std::shared_ptr<const Parts> parts)
    : config_(load_measured_config(config, {}, weights, std::move(parts))),
      transform_(transforms_of(config_, data::Split::test).steps) {
  const auto program = configured_program(config_);
  model_ = program.model();
  task_ = program.task;
  start_from_weights({model_, task_}, config_.model, WeightsFor::measuring);
  model_->eval();
}

Prediction TrainedRun::predict(std::vector<samples::Sample> samples, std::int64_t first) const {
  const torch::NoGradGuard no_grad;
  const auto count = static_cast<std::int64_t>(samples.size());
  std::vector<std::int64_t> numbers;
  for (auto& sample : samples) {
    numbers.push_back(first + static_cast<std::int64_t>(numbers.size()));
    if (transform_) sample = transform_(std::move(sample), samples::Chance(0, 0, numbers.back()));
  }
  auto batch = samples::pad_and_stack(std::move(samples));
  batch.count = count;
  batch.indices = std::move(numbers);
  return task_->predict(*model_, batch);
}

}  // namespace lockstep::train
