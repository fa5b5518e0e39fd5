#include <lockstep/train/output/tensorboard.h>

#include <utility>

namespace lockstep::train {
TensorBoardLog::TensorBoardLog(std::filesystem::path folder, std::int64_t every)
    : folder_(std::move(folder)), every_(every) {}

void TensorBoardLog::before_run(RunView& run) {
  if (run.step() == 0) remove_event_files(folder_);
  const auto& logged = run.logged();
  // The first step whose values may be missing in the files that are there.
  const auto first = logged ? logged->step : run.step();
  file_.emplace(folder_, first);
  if (logged) {
    samples_ = logged->samples;
    seconds_ = logged->seconds;
    write(*logged);
  }
  for (const auto& evaluation : run.evaluations()) {
    if (evaluation.step >= first) after_evaluation(run, evaluation);
  }
}

void TensorBoardLog::after_step(RunView&, const StepReport& report) {
  samples_ += report.samples;
  seconds_ += report.seconds;
  if (is_due(every_, report)) write(report);
}

void TensorBoardLog::write(const StepReport& report) {
  if (!report.loss) return;
  file_->scalar("train/loss", report.step, *report.loss);
  file_->scalar("train/lr", report.step, report.lr);
  if (seconds_ > 0) file_->scalar("train/samples_per_s", report.step, static_cast<double>(samples_) / seconds_);
  samples_ = 0;
  seconds_ = 0;
  file_->flush();
}

void TensorBoardLog::after_evaluation(RunView&, const Evaluation& evaluation) {
  file_->scalar("evaluation/loss", evaluation.step, evaluation.loss);
  for (const auto& [name, value] : evaluation.metrics) file_->scalar("evaluation/" + name, evaluation.step, value);
  for (const auto& picture : evaluation.pictures) {
    file_->picture("evaluation/" + picture.name, evaluation.step,
                   {.width = picture.width, .height = picture.height, .channels = 3, .pixels = picture.pixels});
  }
  file_->flush();
}

}  // namespace lockstep::train
