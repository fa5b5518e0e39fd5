// A run that stands still, for callbacks that look at little of it.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/train/callback.h>

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::test {

/// Has these values; whatever needs a real run is Error(unsupported).
class StillRun final : public train::RunView {
 public:
  std::int64_t steps_done = 0;
  std::vector<train::Evaluation> evaluated;
  std::optional<train::StepReport> logged_step;
  train::ResolvedRun configuration;

  const train::ResolvedRun& config() const override { return configuration; }
  const Group& group() const override { none(); }
  torch::nn::Module& model() const override { none(); }
  std::int64_t step() const override { return steps_done; }
  std::int64_t total_steps() const override { return 100; }
  std::int64_t epoch() const override { return 0; }
  double lr() const override { return 0.5; }
  std::optional<double> loss() const override { return std::nullopt; }
  const std::vector<train::Evaluation>& evaluations() const override { return evaluated; }
  const std::optional<train::StepReport>& logged() const override { return logged_step; }
  const samples::Dataset& training_data() const override { none(); }
  const samples::Dataset* evaluation_data() const override { none(); }
  void ask_to_stop(std::string) override { none(); }
  void ask_to_save() override { none(); }
  void ask_to_evaluate() override { none(); }
  void evaluate_with(train::NamedTensors, std::string) override { none(); }
  std::filesystem::path save_checkpoint(const std::filesystem::path&) override { none(); }
  train::NamedTensors weights() const override { none(); }
  void tell(std::string_view line) const override { told.emplace_back(line); }

  mutable std::vector<std::string> told;  ///< all lines for people

 private:
  [[noreturn]] static void none() { fail(ErrorKind::unsupported, "still run", "there is no run"); }
};

}  // namespace lockstep::test
