// The callbacks that record steps: learning rates on the console, norms of gradients as lines of JSON, and TensorBoard
// with curves, histograms of weights and gradients, and training pictures.
#include <lockstep/comm/group.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/mirrored/sparse_gradient.h>
#include <lockstep/train/callbacks/run_callbacks.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/output/run_files.h>
#include <lockstep/train/parts.h>
#include <lockstep/train/resources/work_dir.h>

#include <fmt/format.h>
#include <torch/torch.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace lockstep::train {
namespace {

struct LearningRateLogOptions {
  std::int64_t every = 0;
};

void describe(ConfigFields& fields, LearningRateLogOptions& options) {
  fields.field("every", options.every, between(0, 1e15), "steps between lines; 0: a line where the rate has changed");
}

class LearningRateLog final : public Callback {
 public:
  explicit LearningRateLog(const LearningRateLogOptions& options) : options_(options) {}

  std::string name() const override { return "lr_log"; }
  int priority() const override { return kLate; }

  void after_step(RunView& run, const StepReport& step) override {
    const bool due = options_.every > 0 ? is_due(options_.every, step) : !last_ || *last_ != step.lr;
    last_ = step.lr;
    if (due) run.tell(fmt::format("step {}: learning rate {:.6g}", step.step, step.lr));
  }

 private:
  LearningRateLogOptions options_;
  std::optional<double> last_;
};

constexpr const char* kNormsFile = "gradient_norms.jsonl";

struct GradientNormsOptions {
  std::int64_t every = 10;
  bool parameters = false;
};

void describe(ConfigFields& fields, GradientNormsOptions& options) {
  fields.field("every", options.every, between(1, 1e15), "steps between lines");
  fields.field("parameters", options.parameters, anything(), "also the norm of each parameter's gradient, by name");
}

/// WORK_DIR/gradient_norms.jsonl: {"step":10,"norm":1.5}, the root of the sum of squares over all gradients, before
/// train.clip_norm. The host reads numbers only at the steps that are due.
class GradientNorms final : public Callback {
 public:
  explicit GradientNorms(const GradientNormsOptions& options) : options_(options) {}

  std::string name() const override { return "gradient_norms"; }
  std::vector<OwnPath> own_paths() const override { return {{kNormsFile}}; }

  void before_run(RunView& run) override {
    parameters_ = trainable_parameters(run.model());
    if (run.group().rank() != 0) return;
    lines_.emplace(std::filesystem::path(run.config().system.work_dir) / kNormsFile, run.step());
    lines_->open(run);
  }

  void after_backward(RunView& run) override {
    const auto step = run.step() + 1;
    if (step % options_.every != 0) return;
    const torch::NoGradGuard no_grad;
    double squares = 0;
    nlohmann::ordered_json norms = nlohmann::ordered_json::object();
    for (const auto& [name, parameter] : parameters_) {
      if (!parameter.grad().defined()) continue;
      auto square = mirrored::numbers_of(parameter.grad()).to(torch::kFloat).square().sum();
      if (is_global(square)) square = full(square);
      const auto value = square.item<double>();
      squares += value;
      if (options_.parameters) norms[name] = std::sqrt(value);
    }
    if (!lines_) return;
    nlohmann::ordered_json line{{"step", step}, {"norm", std::sqrt(squares)}};
    if (options_.parameters) line["parameters"] = std::move(norms);
    lines_->write(run, step, line.dump());
  }

 private:
  GradientNormsOptions options_;
  NamedParameters parameters_;
  std::optional<StepLines> lines_;  ///< of rank 0
};

struct TensorBoardOptions {
  std::int64_t histograms_every = 0;
  std::int64_t pictures = 0;
};

void describe(ConfigFields& fields, TensorBoardOptions& options) {
  fields.field("histograms_every", options.histograms_every, between(0, 1e15),
               "steps between histograms of weights and gradients; 0: none");
  fields.field("pictures", options.pictures, between(0, 64),
               "training pictures that are shown, as the model gets them");
}

Histogram histogram_of_tensor(const at::Tensor& tensor) {
  const auto flat = tensor.detach().to(torch::kCPU, torch::kFloat).contiguous();
  return histogram_of(std::span<const float>(flat.data_ptr<float>(), static_cast<std::size_t>(flat.numel())));
}

/// The first field of samples with the shape of a picture: [C, H, W], floating, with 1, 3 or 4 channels.
at::Tensor picture_in(const samples::Batch& batch) {
  for (const auto& [name, tensor] : batch.tensors) {
    if (tensor.dim() != 4 || !tensor.is_floating_point()) continue;
    if (const auto channels = tensor.size(1); channels == 1 || channels == 3 || channels == 4) return tensor[0];
  }
  return {};
}

/// The event files of callbacks.tensorboard, with more content. The host reads numbers only at the steps that are due.
class TensorBoardPart final : public Callback {
 public:
  explicit TensorBoardPart(const TensorBoardOptions& options) : options_(options) {}

  std::string name() const override { return "tensorboard"; }
  int priority() const override { return kLate; }
  std::vector<OwnPath> own_paths() const override { return {{"tensorboard"}}; }

  void before_run(RunView& run) override {
    parameters_ = trainable_parameters(run.model());
    if (run.group().rank() != 0) return;
    log_.emplace(WorkDir(run.config().system.work_dir).tensorboard(), run.config().callbacks.metrics_every);
    log_->before_run(run);
    if (run.step() == 0) show_pictures(run);
  }

  void after_backward(RunView& run) override {
    if (!histograms_due(run)) return;
    for (const auto& [name, parameter] : parameters_) {
      if (parameter.grad().defined()) write_histogram(run, "gradients/" + name, mirrored::numbers_of(parameter.grad()));
    }
  }

  void after_update(RunView& run) override {
    if (!histograms_due(run)) return;
    for (const auto& [name, parameter] : parameters_) write_histogram(run, "weights/" + name, parameter);
  }

  void after_step(RunView& run, const StepReport& report) override {
    if (log_) log_->after_step(run, report);
  }

  void after_evaluation(RunView& run, const Evaluation& evaluation) override {
    if (log_) log_->after_evaluation(run, evaluation);
  }

 private:
  bool histograms_due(const RunView& run) const {
    return options_.histograms_every > 0 && (run.step() + 1) % options_.histograms_every == 0;
  }

  /// A collective if the tensor is divided.
  void write_histogram(const RunView& run, const std::string& tag, const at::Tensor& tensor) {
    const torch::NoGradGuard no_grad;
    const auto whole = is_global(tensor) ? full(tensor.detach()) : tensor;
    if (!log_) return;
    log_->add(run, [&](EventFile& file) { file.histogram(tag, run.step() + 1, histogram_of_tensor(whole)); });
  }

  void show_pictures(RunView& run) {
    const auto& data = run.training_data();
    const auto seed = shuffle_seed_of(run.config());
    for (std::int64_t i = 0; i < std::min(options_.pictures, data.size()); ++i) {
      const auto picture = picture_in(data.collate({data.get(i, samples::Chance(seed, 0, i))}));
      if (!picture.defined()) return;
      const auto low = picture.min(), high = picture.max();
      const auto bytes = ((picture - low) / (high - low).clamp_min(1e-12) * 255).round().to(torch::kByte);
      const auto rows = bytes.permute({1, 2, 0}).contiguous();
      log_->add(run, [&](EventFile& file) {
        file.picture(fmt::format("training/{}", i), 0,
                     {rows.size(1),
                      rows.size(0),
                      rows.size(2),
                      {rows.data_ptr<std::uint8_t>(), static_cast<std::size_t>(rows.numel())}});
      });
    }
  }

  TensorBoardOptions options_;
  NamedParameters parameters_;
  std::optional<TensorBoardLog> log_;  ///< of rank 0
};

}  // namespace

void add_step_records(Parts& parts) {
  parts.callbacks.push_back(
      callback_part<LearningRateLog>("lr_log", "shows the learning rate", LearningRateLogOptions{}));
  parts.callbacks.push_back(callback_part<GradientNorms>(
      "gradient_norms", "writes the norm of all gradients to gradient_norms.jsonl", GradientNormsOptions{}));
  parts.callbacks.push_back(callback_part<TensorBoardPart>(
      "tensorboard", "event files for TensorBoard: curves, histograms of weights and gradients, training pictures",
      TensorBoardOptions{}));
}

}  // namespace lockstep::train
