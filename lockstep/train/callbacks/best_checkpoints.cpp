// The best checkpoints of a run by a metric, in a folder of their own.
#include <lockstep/base/error.h>
#include <lockstep/comm/group.h>
#include <lockstep/train/callbacks/metric_choice.h>
#include <lockstep/train/callbacks/shipped.h>
#include <lockstep/train/checkpoint/checkpoint_folder.h>
#include <lockstep/train/configuration/config_keys.h>

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace lockstep::train {
namespace {

struct BestCheckpointsOptions {
  MetricChoice choice;
  std::int64_t keep = 1;
  std::string folder = "best";
};

void describe(ConfigFields& fields, BestCheckpointsOptions& options) {
  fields.field("metric", options.choice.metric, anything(), "loss, or a metric of the task");
  fields.field("mode", options.choice.mode, one_of({"auto", "min", "max"}),
               "what is better; auto: min for loss, perplexity, mae, mse, rmse and names with error or loss");
  fields.field("keep", options.keep, between(1, 1e6), "how many of the best to keep");
  fields.field("folder", options.folder, a_path(), "in system.work_dir, unless it is a whole path");
}

/// Which are the best follows from the evaluations, which are part of checkpoints: a run that is resumed comes to the
/// same.
class BestCheckpoints final : public Callback {
 public:
  explicit BestCheckpoints(BestCheckpointsOptions options) : options_(std::move(options)) {}

  std::string name() const override { return "best_checkpoints"; }
  int priority() const override { return kLate; }

  void before_run(RunView& run) override {
    options_.choice.require_possible(run.config());
    require_own_folder(run.config());
  }

  void after_evaluation(RunView& run, const Evaluation& evaluation) override {
    const auto best = best_steps(run.evaluations());
    if (std::ranges::find(best, evaluation.step) == best.end()) return;
    const auto folder = folder_of(run.config(), options_.folder);
    const auto file = run.save_checkpoint(folder);
    run.tell(fmt::format("{} {:.6g} is among the best {}: saved as {}", options_.choice.metric,
                         options_.choice.of(evaluation), options_.keep, file.string()));
    if (run.group().rank() == 0) remove_others(folder, best);
  }

 private:
  static std::filesystem::path folder_of(const RunConfig& config, const std::string& folder) {
    return (std::filesystem::path(config.system.work_dir) / folder).lexically_normal();
  }

  /// What removes all but its own checkpoints can share a folder with nothing that does the same.
  void require_own_folder(const RunConfig& config) const {
    const auto folder = folder_of(config, options_.folder);
    if (folder == checkpoint_folder_of(config).lexically_normal()) {
      fail(ErrorKind::config, "callbacks.use",
           "best_checkpoints would keep its checkpoints in {}, where the run keeps its own, and each removes the "
           "other's; give another `folder`",
           folder.string());
    }
    int users = 0;
    for (const auto& item : read_named_list(config.callbacks.use, "callbacks.use")) {
      if (item.name != name()) continue;
      const auto* given = item.arguments.find("folder");
      if (folder_of(config, given != nullptr ? given->scalar : BestCheckpointsOptions{}.folder) == folder) ++users;
    }
    if (users > 1) {
      fail(ErrorKind::config, "callbacks.use",
           "{} best_checkpoints keep their checkpoints in {}, and each removes the others'; give each a `folder` of "
           "its own",
           users, folder.string());
    }
  }

  /// Of equally good ones the earlier.
  std::vector<std::int64_t> best_steps(const std::vector<Evaluation>& evaluations) const {
    std::vector<const Evaluation*> order;
    for (const auto& evaluation : evaluations) order.push_back(&evaluation);
    std::ranges::stable_sort(order, [this](const Evaluation* a, const Evaluation* b) {
      return options_.choice.is_better(options_.choice.of(*a), options_.choice.of(*b));
    });
    std::vector<std::int64_t> steps;
    for (const auto* each : order) {
      if (static_cast<std::int64_t>(steps.size()) < options_.keep) steps.push_back(each->step);
    }
    return steps;
  }

  static void remove_others(const std::filesystem::path& folder, const std::vector<std::int64_t>& steps) {
    for (const auto& checkpoint : list_checkpoints(folder)) {
      if (std::ranges::find(steps, checkpoint.step) != steps.end()) continue;
      std::error_code error;
      std::filesystem::remove_all(checkpoint.path, error);
      if (error) {
        fail(ErrorKind::io, "best_checkpoints", "cannot remove {}: {}", checkpoint.path.string(), error.message());
      }
    }
  }

  BestCheckpointsOptions options_;
};

}  // namespace

CallbackPart best_checkpoints_part() {
  return {.name = "best_checkpoints",
          .doc = "keeps the checkpoints of the best evaluations by a metric",
          .options = PartOptions::of(BestCheckpointsOptions{}),
          .make = [](const PartOptions& options) {
            return std::make_unique<BestCheckpoints>(options.as<BestCheckpointsOptions>());
          }};
}

}  // namespace lockstep::train
