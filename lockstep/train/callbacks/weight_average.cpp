// The exponential moving average of the weights (EMA): evaluated in place of the weights, and saved.
#include <lockstep/base/error.h>
#include <lockstep/comm/group.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/models/remote_rows.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/state/saved_checkpoint.h>
#include <lockstep/train/callbacks/run_callbacks.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/parts.h>

#include <torch/torch.h>

#include <fmt/format.h>

#include <utility>

namespace lockstep::train {
namespace {

constexpr const char* kAverageFile = "ema.safetensors";

struct WeightAverageOptions {
  double decay = 0.9999;
  std::int64_t every_steps = 1;
  bool evaluate = true;
};

void describe(ConfigFields& fields, WeightAverageOptions& options) {
  fields.field("decay", options.decay, from_to_below(0, 1), "average = decay * average + (1 - decay) * weights");
  fields.field("every_steps", options.every_steps, between(1, 1e9), "optimizer steps between two updates");
  fields.field("evaluate", options.evaluate, anything(), "evaluations measure the average; false: the weights");
}

/// The average starts with the initial weights of the run. It covers only parameters: batch norm statistics are the
/// model's. Every rank keeps it without communication, divided in the same way as the parameters.
class WeightAverage final : public Callback {
 public:
  explicit WeightAverage(const WeightAverageOptions& options) : options_(options) {}

  std::string name() const override { return kAverageCallback; }
  int priority() const override { return kEarly; }

  std::vector<OwnPath> own_paths() const override { return {{kAverageFile}}; }

  void restore(const CallbackState& state) override { saved_ = state.tensors; }

  void before_run(RunView& run) override {
    const torch::NoGradGuard no_grad;
    if (const auto tables = models::tables_elsewhere(run.model()); !tables.empty()) {
      fail(ErrorKind::config, "callbacks.use",
           "ema averages parameters of the ranks, and {} is on parameter servers; remove ema, or set "
           "parallel.mode=data_parallel",
           tables.front().name);
    }
    parameters_ = trainable_parameters(run.model());
    average_.clear();
    for (const auto& [name, parameter] : parameters_) {
      auto average = parameter.detach().clone();
      if (const auto saved = saved_.find(name); saved != saved_.end()) {
        if (saved->second.sizes() != parameter.sizes()) {
          fail(ErrorKind::data, "checkpoint", "the average of {} has another shape than the parameter", name);
        }
        average.copy_(saved->second);
      }
      average_.emplace(name, std::move(average));
    }
    if (saved_.empty() && run.step() > 0) {
      run.tell(fmt::format("ema: the checkpoint has no average: it begins with the weights of step {}", run.step()));
    }
    saved_.clear();
  }

  void after_update(RunView& run) override {
    if ((run.step() + 1) % options_.every_steps != 0) return;
    const torch::NoGradGuard no_grad;
    for (const auto& [name, parameter] : parameters_) {
      average_.at(name).mul_(options_.decay).add_(parameter.detach(), 1 - options_.decay);
    }
  }

  void before_evaluation(RunView& run) override {
    if (options_.evaluate) run.evaluate_with(average_, kAverageWords);
  }

  void after_run(RunView& run) override {
    const torch::NoGradGuard no_grad;
    auto weights = run.weights();
    for (const auto& [name, average] : average_) weights[name] = is_global(average) ? full(average) : average;
    if (run.group().rank() != 0) return;
    const auto file = std::filesystem::path(run.config().system.work_dir) / kAverageFile;
    save_safetensors(file, weights, {{"model", run.config().model.name}, {"params_sha256", sha256_of(weights)}});
  }

  CallbackState state() const override { return {.text = {}, .tensors = average_.empty() ? saved_ : average_}; }

 private:
  WeightAverageOptions options_;
  NamedParameters parameters_;
  NamedTensors average_;
  NamedTensors saved_;  ///< until before_run
};

}  // namespace

void add_weight_average(Parts& parts) {
  parts.callbacks.push_back(callback_part<WeightAverage>(
      kAverageCallback, "an exponential moving average of the weights, evaluated and left as ema.safetensors",
      WeightAverageOptions{}));
}

}  // namespace lockstep::train
