// The norms of gradients, one line of JSON for each step that is asked for.
#include <lockstep/base/atomic_file.h>
#include <lockstep/base/error.h>
#include <lockstep/comm/group.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/mirrored/sparse_gradient.h>
#include <lockstep/train/callbacks/shipped.h>
#include <lockstep/train/optimizer.h>

#include <torch/torch.h>

#include <cmath>
#include <fstream>
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
/// train.clip_norm. Reads numbers at the steps that are due only.
class GradientNorms final : public Callback {
 public:
  explicit GradientNorms(const GradientNormsOptions& options) : options_(options) {}

  std::string name() const override { return "gradient_norms"; }
  std::vector<OwnPath> own_paths() const override { return {{kNormsFile}}; }

  void before_run(RunView& run) override {
    parameters_ = trainable_parameters(run.model());
    if (run.group().rank() != 0) return;
    const auto file = std::filesystem::path(run.config().system.work_dir) / kNormsFile;
    write_file_atomically(file, lines_until(file, run.step()));
    out_.emplace(file, std::ios::app);
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
    if (!out_) return;
    nlohmann::ordered_json line{{"step", step}, {"norm", std::sqrt(squares)}};
    if (options_.parameters) line["parameters"] = std::move(norms);
    *out_ << line.dump() << '\n' << std::flush;
    if (!*out_) fail(ErrorKind::io, "gradient_norms", "cannot write {} in system.work_dir", kNormsFile);
  }

 private:
  /// Those that a run which goes on after so many steps does not write again.
  static std::string lines_until(const std::filesystem::path& file, std::int64_t step) {
    std::string kept;
    std::ifstream in(file);
    for (std::string text; std::getline(in, text) && !in.eof();) {
      const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
      if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) break;
      if (json["step"].get<std::int64_t>() <= step) kept += text + '\n';
    }
    return kept;
  }

  GradientNormsOptions options_;
  NamedParameters parameters_;
  std::optional<std::ofstream> out_;
};

}  // namespace

CallbackPart gradient_norms_part() {
  return {.name = "gradient_norms",
          .doc = "writes the norm of all gradients to gradient_norms.jsonl",
          .options = PartOptions::of(GradientNormsOptions{}),
          .make = [](const PartOptions& options) {
            return std::make_unique<GradientNorms>(options.as<GradientNormsOptions>());
          }};
}

}  // namespace lockstep::train
