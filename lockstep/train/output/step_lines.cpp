// An append-only file of JSON lines that is cut back to the step of a resume when it is opened.
#include <lockstep/train/output/step_lines.h>

#include <lockstep/base/atomic_file.h>
#include <lockstep/base/disk_reason.h>
#include <lockstep/base/error.h>

#include <fcntl.h>

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace lockstep::train {
namespace {

/// The step of a line; nullopt: it is not a valid line.
std::optional<std::int64_t> step_of_line(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return std::nullopt;
  return json["step"].get<std::int64_t>();
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

}  // namespace lockstep::train
