#include <lockstep/base/atomic_file.h>
#include <lockstep/base/error.h>
#include <lockstep/train/output/metrics.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace lockstep::train {
namespace {

std::optional<MetricsLine> parse(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  for (const auto* key : {"epoch", "step", "loss", "lr", "samples_per_s"}) {
    if (!json.contains(key) || !json[key].is_number()) return std::nullopt;
  }
  return MetricsLine{json["epoch"], json["step"], json["loss"], json["lr"], json["samples_per_s"]};
}

// The step of the last line that is kept; 0 when there is none.
std::int64_t keep_until(const std::filesystem::path& file, std::int64_t step) {
  std::string kept;
  std::int64_t last = 0;
  for (const auto& line : read_metrics(file)) {
    if (line.step > step) continue;
    kept += to_json(line) + '\n';
    last = line.step;
  }
  write_file_atomically(file, kept);
  return last;
}

}  // namespace

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
  std::ifstream in(file);
  for (std::string text; std::getline(in, text) && !in.eof();) {
    const auto line = parse(text);
    if (!line) break;
    lines.push_back(*line);
  }
  return lines;
}

MetricsFile::MetricsFile(std::filesystem::path file, std::int64_t every, std::int64_t steps_done,
                         const std::optional<StepReport>& logged)
    : file_(std::move(file)), every_(every) {
  const auto last = keep_until(file_, steps_done);
  out_.open(file_, std::ios::app);
  if (!out_)
    fail(ErrorKind::io, "metrics", "cannot open {}: {}", file_.string(), std::generic_category().message(errno));
  if (logged && logged->step == last + std::max(every_, logged->steps)) write(*logged);
}

void MetricsFile::after_step(RunView&, const StepReport& report) { write(report); }

void MetricsFile::write(const StepReport& report) {
  samples_ += report.samples;
  seconds_ += report.seconds;
  if (!report.loss || !is_due(every_, report)) return;
  const double rate = seconds_ > 0 ? static_cast<double>(samples_) / seconds_ : 0.0;
  samples_ = 0;
  seconds_ = 0;
  errno = 0;
  out_ << to_json(MetricsLine{report.epoch, report.step, *report.loss, report.lr, rate}) << '\n' << std::flush;
  if (!out_) {
    fail(ErrorKind::io, "metrics", "cannot write {}: {}", file_.string(), std::generic_category().message(errno));
  }
}

}  // namespace lockstep::train
