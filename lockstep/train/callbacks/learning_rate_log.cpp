// The learning rate in the log and on the console.
#include <lockstep/train/parts.h>

#include <fmt/format.h>

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

}  // namespace

void add_learning_rate_log(Parts& parts) {
  parts.callbacks.push_back({.name = "lr_log",
                             .doc = "shows the learning rate",
                             .options = PartOptions::of(LearningRateLogOptions{}),
                             .make = [](const PartOptions& options) {
                               return std::make_unique<LearningRateLog>(options.as<LearningRateLogOptions>());
                             }});
}

}  // namespace lockstep::train
