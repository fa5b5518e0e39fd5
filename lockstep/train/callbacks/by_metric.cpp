// The callbacks that follow a metric of evaluations: early stopping, and the best checkpoints in a separate folder.
#include <lockstep/base/config.h>
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/comm/group.h>
#include <lockstep/comm/texts.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/state/checkpoint_folder.h>
#include <lockstep/train/callback.h>
#include <lockstep/train/callbacks/run_callbacks.h>
#include <lockstep/train/checkpoint/run_state.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/output/run_files.h>
#include <lockstep/train/parts.h>
#include <lockstep/train/resources/work_dir.h>
#include <lockstep/train/tasks/chosen_metrics.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace lockstep::train {
namespace {

[[noreturn]] void fail_without(const std::string& metric, const std::vector<std::string>& names) {
  fail(ErrorKind::config, "callbacks.use", "the evaluation has no metric '{}'; it has {}{}", metric,
       fmt::join(names, ", "), did_you_mean(metric, names));
}

/// Error(config) naming the keys that would help, where the run has no data for evaluations: a callback that acts on
/// evaluations would have no effect.
void require_evaluations(const RunView& run, std::string_view callback) {
  if (run.evaluation_data() != nullptr) return;
  const auto& config = run.config();
  std::string keys;
  const auto* part = config.has_own_data ? nullptr : find_part(config.parts->data, config.data.name);
  if (part != nullptr) {
    for (const auto& key :
         list_fields([options = part->options](ConfigFields& fields) mutable { options.visit(fields); })) {
      if (key.path.starts_with("eval")) keys += fmt::format(" by data.{}", key.path);
    }
  }
  fail(
      ErrorKind::config, "callbacks.use",
      "{} acts on evaluations, and the run has no data for them, so that it would never act; give some{}, or remove it",
      callback, keys);
}

}  // namespace

void MetricChoice::require_possible(const ResolvedRun& config) const {
  const auto names = value_names(config);
  if (!names || std::ranges::any_of(*names, [this](const auto& name) { return fits(metric, name); })) return;
  fail_without(metric, *names);
}

bool MetricChoice::wants_max() const {
  if (mode != "auto") return mode == "max";
  const auto has = [this](const char* word) { return metric.find(word) != std::string::npos; };
  const auto is = [this](const char* word) { return metric == word; };
  return !(has("loss") || has("error") || is("perplexity") || is("mae") || is("mse") || is("rmse"));
}

double MetricChoice::of(const Evaluation& evaluation) const {
  if (metric == "loss") return evaluation.loss;
  const auto found = evaluation.metrics.find(metric);
  if (found != evaluation.metrics.end()) return found->second;
  std::vector<std::string> names{"loss"};
  for (const auto& [name, value] : evaluation.metrics) names.push_back(name);
  fail_without(metric, names);
}

bool MetricChoice::is_better(double value, double than, double min_delta) const {
  if (std::isnan(value)) return false;
  if (std::isnan(than)) return true;
  return wants_max() ? value > than + min_delta : value < than - min_delta;
}

namespace {

void metric_keys(ConfigFields& fields, MetricChoice& choice) {
  fields.field("metric", choice.metric, anything(), "loss, or a metric of the task");
  fields.field("mode", choice.mode, one_of({"auto", "min", "max"}),
               "what is better; auto: min for loss, perplexity, mae, mse, rmse and names with error or loss");
}

struct EarlyStoppingOptions {
  MetricChoice choice;
  std::int64_t patience = 3;
  double min_delta = 0;
};

void describe(ConfigFields& fields, EarlyStoppingOptions& options) {
  metric_keys(fields, options.choice);
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

struct BestCheckpointsOptions {
  MetricChoice choice;
  std::int64_t keep = 1;
  std::string folder = "best";
};

void describe(ConfigFields& fields, BestCheckpointsOptions& options) {
  metric_keys(fields, options.choice);
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

void add_by_metric(Parts& parts) {
  parts.callbacks.push_back(callback_part<EarlyStopping>(
      "early_stopping", "ends the run when a metric has not improved for some evaluations", EarlyStoppingOptions{}));
  parts.callbacks.push_back(callback_part<BestCheckpoints>(
      "best_checkpoints", "keeps the checkpoints of the best evaluations by a metric", BestCheckpointsOptions{}));
}

}  // namespace lockstep::train
