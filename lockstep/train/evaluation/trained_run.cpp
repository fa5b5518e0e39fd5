// A trained run that is put to use: the changes that turn a training configuration into one of an evaluation (given
// weights, no callbacks, no training), and the model, the task and the transforms of one, without the session of a run.
#include <lockstep/base/config.h>
#include <lockstep/base/yaml_text.h>
#include <lockstep/train/configuration/read_config.h>
#include <lockstep/train/evaluation/evaluate_run.h>
#include <lockstep/train/modes/run_model.h>
#include <lockstep/train/program.h>
#include <lockstep/train/resources/run_data.h>
#include <lockstep/train/trained_run.h>

#include <torch/torch.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::train {
namespace {

constexpr std::string_view kWeights = "model.weights", kTheirs = "load_from";

bool names_weights(const ConfigNode& root) {
  const auto own = with_own_names(root);
  const auto* model = own.find("model");
  const auto* weights = model == nullptr ? nullptr : model->find("weights");
  return weights != nullptr && weights->kind != ConfigNode::Kind::null;
}

}  // namespace

std::vector<std::string> measured_overrides(const std::optional<std::filesystem::path>& path,
                                            std::span<const std::string> overrides, const std::string& weights,
                                            bool average) {
  const auto file = path ? load_config(*path).root : make_section();
  std::vector<std::string> all;
  if (names_weights(file)) {
    all = {"model.weights_key=''",    "model.weights_prefix=''",   "model.weights_rename=null",
           "model.weights_except=[]", "model.weights_strict=true", "model.weights_average=false"};
  }
  all.push_back("callbacks.use=null");  // evaluations do not use them, and they may name metrics of another list
  all.insert(all.end(), overrides.begin(), overrides.end());
  // Two names of one key would contradict each other.
  const bool by_their_name = file.find(kTheirs) != nullptr || std::ranges::any_of(overrides, [](const auto& each) {
                               return each.starts_with(std::string(kTheirs) + "=");
                             });
  all.push_back(std::string(by_their_name ? kTheirs : kWeights) + "=" + print_yaml_flow(make_scalar(weights, true)));
  if (average) all.emplace_back("model.weights_average=true");
  return all;
}

ResolvedRun without_training(ResolvedRun config) {
  if (!config.train.epochs && !config.train.steps) config.train.epochs = 1;
  if (config.optimizer.lr == 0) config.optimizer.lr = 1;
  return config;
}

TrainedRun::TrainedRun(const std::filesystem::path& config, const std::string& weights,
                       std::shared_ptr<const Parts> parts)
    : config_(load_run_config(config, measured_overrides(config, {}, weights), std::move(parts))),
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
