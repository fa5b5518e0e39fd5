// The writer and reader of metrics lines as JSON, with the rate of samples since the previous line.
#include <lockstep/train/output/metrics.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <system_error>

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

}  // namespace lockstep::train
