// A callback that writes scalars and pictures as TensorBoard events, in a new file for each start of the run.
#include <lockstep/train/output/tensorboard.h>

#include <utility>

namespace lockstep::train {
TensorBoardLog::TensorBoardLog(std::filesystem::path folder, std::int64_t every)
    : folder_(std::move(folder)), every_(every), informs_(folder_.filename().string() + "/") {}

void TensorBoardLog::before_run(RunView& run) {
  if (run.step() == 0) informs_.write(run, [this] { remove_event_files(folder_); });
  const auto& logged = run.logged();
  first_ = logged ? logged->step : run.step();
  add(run, [](EventFile&) {});
  if (logged) {
    samples_ = logged->samples;
    seconds_ = logged->seconds;
    write(run, *logged);
  }
  for (const auto& evaluation : run.evaluations()) {
    if (evaluation.step >= first_) after_evaluation(run, evaluation);
  }
}

void TensorBoardLog::add(const RunView& run, const std::function<void(EventFile&)>& values) {
  informs_.write(run, [&] {
    if (!file_) file_.emplace(folder_, first_);
    values(*file_);
    file_->flush();
  });
}

void TensorBoardLog::after_step(RunView& run, const StepReport& report) {
  samples_ += report.samples;
  seconds_ += report.seconds;
  if (is_due(every_, report)) write(run, report);
}

void TensorBoardLog::write(const RunView& run, const StepReport& report) {
  if (!report.loss) return;
  add(run, [&](EventFile& file) {
    file.scalar("train/loss", report.step, *report.loss);
    file.scalar("train/lr", report.step, report.lr);
    if (seconds_ > 0) file.scalar("train/samples_per_s", report.step, static_cast<double>(samples_) / seconds_);
  });
  samples_ = 0;
  seconds_ = 0;
}

void TensorBoardLog::after_evaluation(RunView& run, const Evaluation& evaluation) {
  add(run, [&](EventFile& file) {
    file.scalar("evaluation/loss", evaluation.step, evaluation.loss);
    for (const auto& [name, value] : evaluation.metrics) file.scalar("evaluation/" + name, evaluation.step, value);
    for (const auto& picture : evaluation.pictures) {
      file.picture("evaluation/" + picture.name, evaluation.step,
                   {.width = picture.width, .height = picture.height, .channels = 3, .pixels = picture.pixels});
    }
  });
}

}  // namespace lockstep::train
