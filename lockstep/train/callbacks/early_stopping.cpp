// Early stopping: the end of a run when a metric has not improved for some evaluations.
#include <lockstep/train/callbacks/metric_choice.h>
#include <lockstep/train/parts.h>

#include <fmt/format.h>

#include <utility>

namespace lockstep::train {
namespace {

struct EarlyStoppingOptions {
  MetricChoice choice;
  std::int64_t patience = 3;
  double min_delta = 0;
};

void describe(ConfigFields& fields, EarlyStoppingOptions& options) {
  fields.field("metric", options.choice.metric, anything(), "loss, or a metric of the task");
  fields.field("mode", options.choice.mode, one_of({"auto", "min", "max"}),
               "what is better; auto: min for loss, perplexity, mae, mse, rmse and names with error or loss");
  fields.field("patience", options.patience, between(1, 1e9), "evaluations in a row without improvement");
  fields.field("min_delta", options.min_delta, at_least(0), "an improvement is more than this");
}

/// Reads only the evaluations, which are part of checkpoints, so that the decision after a resume is the same.
class EarlyStopping final : public Callback {
 public:
  explicit EarlyStopping(EarlyStoppingOptions options) : options_(std::move(options)) {}

  std::string name() const override { return "early_stopping"; }
  int priority() const override { return kLate; }
  void check(const ResolvedRun& config) const override { options_.choice.require_possible(config); }

  void before_run(RunView& run) override {
    require_evaluations(run, name());
    if (run.config().train.eval_every == 0) {
      run.tell(
          "early_stopping: with train.eval_every 0 the only evaluation is at the end, where nothing is left to stop");
    }
    decide(run);
  }
  void after_evaluation(RunView& run, const Evaluation&) override { decide(run); }

 private:
  void decide(RunView& run) const {
    const auto& evaluations = run.evaluations();
    if (evaluations.empty()) return;
    double best = options_.choice.of(evaluations.front());
    std::int64_t since = 0;
    for (std::size_t i = 1; i < evaluations.size(); ++i) {
      const double value = options_.choice.of(evaluations[i]);
      const bool better = options_.choice.is_better(value, best, options_.min_delta);
      since = better ? 0 : since + 1;
      if (better) best = value;
    }
    if (since < options_.patience) return;
    run.ask_to_stop(fmt::format("early_stopping: {} has not been better than {:.6g} for {} evaluations",
                                options_.choice.metric, best, since));
  }

  EarlyStoppingOptions options_;
};

}  // namespace

void add_early_stopping(Parts& parts) {
  parts.callbacks.push_back({.name = "early_stopping",
                             .doc = "ends the run when a metric has not improved for some evaluations",
                             .options = PartOptions::of(EarlyStoppingOptions{}),
                             .make = [](const PartOptions& options) {
                               return std::make_unique<EarlyStopping>(options.as<EarlyStoppingOptions>());
                             }});
}

}  // namespace lockstep::train
