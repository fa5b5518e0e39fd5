// The best checkpoints of a run by a metric, in a separate folder.
#include <lockstep/base/error.h>
#include <lockstep/comm/group.h>
#include <lockstep/comm/texts.h>
#include <lockstep/state/checkpoint_folder.h>
#include <lockstep/train/callbacks/metric_choice.h>
#include <lockstep/train/checkpoint/run_state.h>
#include <lockstep/train/output/only_informs.h>
#include <lockstep/train/parts.h>
#include <lockstep/train/resources/work_dir.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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

/// The candidates are the checkpoints in the folder and that of the new evaluation. Evaluations from before this
/// callback was used have no checkpoint. Evaluations are part of checkpoints, so a resumed run makes the same choice.
class BestCheckpoints final : public Callback {
 public:
  explicit BestCheckpoints(BestCheckpointsOptions options) : options_(std::move(options)) {}

  std::string name() const override { return "best_checkpoints"; }
  int priority() const override { return kLate; }
  void check(const ResolvedRun& config) const override { options_.choice.require_possible(config); }
  std::vector<OwnPath> own_paths() const override { return {{options_.folder, "folder"}}; }

  void before_run(RunView& run) override {
    require_evaluations(run, name());
    if (run.group().rank() != 0) return;
    informs_.write(run, [&] { require_writable_folder(folder_of(run), "callbacks.use"); });
  }

  void after_evaluation(RunView& run, const Evaluation& evaluation) override {
    const auto folder = folder_of(run);
    const auto best = best_steps(with_checkpoints(run, folder));
    if (std::ranges::find(best, evaluation.step) == best.end()) return;
    std::filesystem::path file;
    // Either all ranks save it, or none.
    if (!informs_.write(run, [&] { file = run.save_checkpoint(folder); })) return;
    run.tell(fmt::format("{} {:.6g} is among the best {}: saved as {}", options_.choice.metric,
                         options_.choice.of(evaluation), options_.keep, file.string()));
    if (run.group().rank() != 0) return;
    informs_.write(run, [&] {
      note_best(folder, noted(run, folder, best.front()));
      remove_others(folder, best);
    });
  }

 private:
  std::filesystem::path folder_of(const RunView& run) const {
    return (std::filesystem::path(run.config().system.work_dir) / options_.folder).lexically_normal();
  }

  /// The evaluations of this run that have checkpoints in rank 0's folder, and the newest evaluation. A collective.
  std::vector<Evaluation> with_checkpoints(const RunView& run, const std::filesystem::path& folder) {
    const auto& all = run.evaluations();
    std::string present;  // a character for each evaluation
    if (run.group().rank() == 0) {
      std::vector<CheckpointFile> files;
      informs_.write(run, [&] { files = list_checkpoints(folder); });
      for (const auto& evaluation : all) {
        const auto file = std::ranges::find(files, evaluation.step, &CheckpointFile::step);
        present += file != files.end() && is_of(*file, evaluation) ? '1' : '0';
      }
    }
    present = share_text(present, run.group());
    std::vector<Evaluation> found;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (present[i] == '1' || i + 1 == all.size()) found.push_back(all[i]);
    }
    return found;
  }

  /// Whether a checkpoint was saved at this evaluation: another run may have left one of the same step.
  static bool is_of(const CheckpointFile& file, const Evaluation& evaluation) {
    try {
      const auto saved = parse_run_state(open_checkpoint(file.path).record).evaluations;
      return !saved.empty() && saved.back().step == evaluation.step &&
             (saved.back().loss == evaluation.loss || (std::isnan(saved.back().loss) && std::isnan(evaluation.loss)));
    } catch (const Error&) {
      return false;  // it cannot be read, so it is not kept
    }
  }

  /// Of equally good evaluations, the earlier one counts.
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

  BestCheckpoint noted(const RunView& run, const std::filesystem::path& folder, std::int64_t step) const {
    const auto& all = run.evaluations();
    const auto evaluation = std::ranges::find(all, step, &Evaluation::step);
    return {.name = checkpoint_path(folder, step).filename().string(),
            .metric = options_.choice.metric,
            .value = options_.choice.of(*evaluation)};
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
  OnlyInforms informs_{"a best checkpoint"};
};

}  // namespace

void add_best_checkpoints(Parts& parts) {
  parts.callbacks.push_back({.name = "best_checkpoints",
                             .doc = "keeps the checkpoints of the best evaluations by a metric",
                             .options = PartOptions::of(BestCheckpointsOptions{}),
                             .make = [](const PartOptions& options) {
                               return std::make_unique<BestCheckpoints>(options.as<BestCheckpointsOptions>());
                             }});
}

}  // namespace lockstep::train
