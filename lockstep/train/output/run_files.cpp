// A guard around optional writes: errors of the file system become one warning, other errors propagate. JSON lines in a
// file that is cut back to the step of a resume when it is opened; metrics with the rate of samples since the previous
// line; TensorBoard's events, in a new file for each start of the run; pictures as PNG files, each replaced atomically.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/train/output/run_files.h>
#include <lockstep/train/viewers/png.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <ios>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace lockstep::train {
namespace {

/// The error of the file system; nullopt: there was none.
std::optional<std::string> refusal_of(const std::function<void()>& write) {
  try {
    write();
    return std::nullopt;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::io) throw;
    return error.message();
  } catch (const std::system_error& error) {  // of std::filesystem and of streams, too
    return error.what();
  }
}

}  // namespace

bool OnlyInforms::write(const RunView& run, const std::function<void()>& write) {
  const auto why = refusal_of(write);
  if (why && !refused_) run.tell(fmt::format("warning: training goes on without {}: {}", what_, *why));
  if (!why && refused_) run.tell(fmt::format("{} is written again", what_));
  refused_ = why.has_value();
  return !refused_;
}

namespace {

/// The step of a line; nullopt: it is not a valid line.
std::optional<std::int64_t> step_of_line(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return std::nullopt;
  return json["step"].get<std::int64_t>();
}

std::optional<MetricsLine> parse(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  for (const auto* key : {"epoch", "step", "loss", "lr", "samples_per_s"}) {
    if (!json.contains(key) || !json[key].is_number()) return std::nullopt;
  }
  return MetricsLine{json["epoch"], json["step"], json["loss"], json["lr"], json["samples_per_s"]};
}

}  // namespace

StepLines::StepLines(std::filesystem::path file, std::int64_t steps_done)
    : path_(std::move(file)), steps_done_(steps_done), informs_(path_.filename().string()) {}

void StepLines::open(const RunView& run) {
  informs_.write(run, [this] { open_now(); });
}

void StepLines::open_now() {
  std::string kept;
  std::error_code unknown;
  last_kept_ = 0;
  if (std::filesystem::is_regular_file(path_, unknown)) {  // reading a pipe would wait
    std::ifstream in(path_);
    for (std::string text; std::getline(in, text) && !in.eof();) {
      const auto step = step_of_line(text);
      if (!step) break;
      if (*step > steps_done_) continue;
      kept += text + '\n';
      last_kept_ = *step;
    }
  }
  write_file_atomically(path_, kept);
  UniqueFd fd(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK));
  if (!fd) fail(ErrorKind::io, "file", "cannot open {}: {}", path_.string(), disk_reason(errno, path_));
  file_.emplace(std::move(fd), path_, "file");
}

void StepLines::write(const RunView& run, std::int64_t step, std::string_view line) {
  const bool written = informs_.write(run, [&] {
    if (!file_) open_now();
    file_->add(line);
    file_->add("\n");
    file_->flush();
  });
  if (!written) file_.reset();
  steps_done_ = step;
}

std::string to_json(const MetricsLine& line) {
  return nlohmann::ordered_json{{"epoch", line.epoch},
                                {"step", line.step},
                                {"loss", line.loss},
                                {"lr", line.lr},
                                {"samples_per_s", line.samples_per_s}}
      .dump();
}

std::vector<MetricsLine> read_metrics(const std::filesystem::path& file) {
  std::vector<MetricsLine> lines;
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(file, unknown)) return lines;  // reading a pipe would wait
  std::ifstream in(file);
  for (std::string text; std::getline(in, text) && !in.eof();) {
    const auto line = parse(text);
    if (!line) break;
    lines.push_back(*line);
  }
  return lines;
}

MetricsFile::MetricsFile(const std::filesystem::path& file, std::int64_t every, std::int64_t steps_done,
                         const std::optional<StepReport>& logged)
    : lines_(file, steps_done), every_(every), logged_(logged) {}

void MetricsFile::before_run(RunView& run) {
  lines_.open(run);
  if (logged_ && logged_->step == lines_.last_kept() + std::max(every_, logged_->steps)) after_step(run, *logged_);
}

void MetricsFile::after_step(RunView& run, const StepReport& report) {
  samples_ += report.samples;
  seconds_ += report.seconds;
  if (!report.loss || !is_due(every_, report)) return;
  const double rate = seconds_ > 0 ? static_cast<double>(samples_) / seconds_ : 0.0;
  samples_ = 0;
  seconds_ = 0;
  lines_.write(run, report.step, to_json(MetricsLine{report.epoch, report.step, *report.loss, report.lr, rate}));
}

void write_png(const std::filesystem::path& file, const ShownPicture& picture) {
  write_file_atomically(
      file, png_of({.width = picture.width, .height = picture.height, .channels = 3, .pixels = picture.pixels}));
}

PictureWriter::PictureWriter(std::filesystem::path folder)
    : folder_(std::move(folder)), informs_(folder_.filename().string() + "/") {}

void PictureWriter::after_evaluation(RunView& run, const Evaluation& evaluation) {
  if (evaluation.pictures.empty()) return;
  informs_.write(run, [&] {
    std::filesystem::create_directories(folder_);
    for (const auto& picture : evaluation.pictures) {
      write_png(folder_ / fmt::format("{}_step_{}.png", picture.name, evaluation.step), picture);
    }
  });
}

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
