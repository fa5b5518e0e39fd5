#include <lockstep/train/metrics.h>
#include <lockstep/train/tensorboard.h>

namespace lockstep::train {
namespace {

// The first step whose values may be missing in the files that are there.
std::int64_t first_step(const RunState& state) { return state.logged ? state.logged->step : state.step; }

const std::filesystem::path& ready_folder(const std::filesystem::path& folder, const RunState& state) {
  if (state.step == 0) remove_event_files(folder);
  return folder;
}

}  // namespace

TensorBoardLog::TensorBoardLog(const std::filesystem::path& folder, std::int64_t every, const RunState& state)
    : every_(every), file_(ready_folder(folder, state), first_step(state)) {
  if (state.logged) {
    samples_ = state.logged->samples;
    seconds_ = state.logged->seconds;
    write(*state.logged);
  }
  for (const auto& evaluation : state.evaluations) {
    if (evaluation.step >= first_step(state)) on_evaluation(evaluation);
  }
}

void TensorBoardLog::on_step(const StepReport& report) {
  samples_ += report.samples;
  seconds_ += report.seconds;
  if (metrics_due(every_, report.step)) write(report);
}

void TensorBoardLog::write(const StepReport& report) {
  if (!report.loss) return;
  file_.scalar("train/loss", report.step, *report.loss);
  file_.scalar("train/lr", report.step, report.lr);
  if (seconds_ > 0) file_.scalar("train/samples_per_s", report.step, static_cast<double>(samples_) / seconds_);
  samples_ = 0;
  seconds_ = 0;
  file_.flush();
}

void TensorBoardLog::on_evaluation(const Evaluation& evaluation) {
  file_.scalar("evaluation/loss", evaluation.step, evaluation.loss);
  for (const auto& [name, value] : evaluation.metrics) file_.scalar("evaluation/" + name, evaluation.step, value);
  file_.flush();
}

}  // namespace lockstep::train
