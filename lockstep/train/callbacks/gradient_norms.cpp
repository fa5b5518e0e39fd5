// The norms of gradients, one line of JSON for each requested step.
#include <lockstep/comm/group.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/mirrored/sparse_gradient.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/output/run_files.h>
#include <lockstep/train/parts.h>

#include <torch/torch.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace lockstep::train {
namespace {

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

}  // namespace

void add_gradient_norms(Parts& parts) {
  parts.callbacks.push_back({.name = "gradient_norms",
                             .doc = "writes the norm of all gradients to gradient_norms.jsonl",
                             .options = PartOptions::of(GradientNormsOptions{}),
                             .make = [](const PartOptions& options) {
                               return std::make_unique<GradientNorms>(options.as<GradientNormsOptions>());
                             }});
}

}  // namespace lockstep::train
