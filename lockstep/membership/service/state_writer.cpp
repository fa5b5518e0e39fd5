// A thread that saves the newest state, and states in files.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/log.h>
#include <lockstep/membership/service/state_writer.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace lockstep::membership {
namespace {

std::optional<std::string> read_if_there(const std::filesystem::path& file) {
  errno = 0;
  auto text = read_file(file);
  if (text || errno == ENOENT) return text;
  fail(ErrorKind::io, "scheduler", "cannot read the job's state from {}: {}", file.string(),
       std::generic_category().message(errno));
}

constexpr auto kTryAgain = std::chrono::seconds(1);

}  // namespace

StatePlace state_in_file(const std::filesystem::path& file) {
  std::error_code failed;
  std::filesystem::create_directories(file.parent_path(), failed);
  if (failed) {
    fail(ErrorKind::io, "scheduler", "cannot make the folder {} for the job's state (MS_RECOVERY_PATH): {}",
         file.parent_path().string(), failed.message());
  }
  return {file.string(), [file] { return read_if_there(file); },
          [file](const std::string& text) {
            write_file_atomically(file, text);
            return true;
          }};
}

StateWriter::StateWriter(StatePlace place, std::function<void(bool)> on_end)
    : place_(std::move(place)),
      on_end_(std::move(on_end)),
      thread_([this](const std::stop_token& stop) { work(stop); }) {}

StateWriter::~StateWriter() = default;

void StateWriter::put(std::string text) {
  const std::lock_guard lock(mutex_);
  waiting_ = std::move(text);
  ++put_;
  changed_.notify_all();
}

void StateWriter::drop() {
  const std::lock_guard lock(mutex_);
  waiting_.reset();
}

bool StateWriter::wait_for(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return saved_ == put_; });
}

void StateWriter::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, stop, [this] { return waiting_.has_value(); });
    if (!waiting_) return;
    const std::string text = *std::exchange(waiting_, std::nullopt);
    const auto number = put_;
    lock.unlock();
    const auto outcome = save(text);
    if (on_end_ && outcome != Outcome::failed) on_end_(outcome == Outcome::saved);
    lock.lock();
    if (outcome == Outcome::place_lost) return;
    if (outcome == Outcome::saved) {
      saved_ = number;
      changed_.notify_all();
    } else {
      if (stop.stop_requested()) return;
      changed_.wait_for(lock, stop, kTryAgain, [] { return false; });
      if (!waiting_) waiting_ = text;
    }
  }
}

StateWriter::Outcome StateWriter::save(const std::string& text) {
  try {
    if (!place_.save(text)) return Outcome::place_lost;
  } catch (const std::exception& error) {
    if (!std::exchange(failing_, true)) {
      log_error(
          "the state of the job is not saved, and saving is tried again every second; until it succeeds, a restarted "
          "scheduler would not have all of the state: {}",
          error.what());
    }
    return Outcome::failed;
  }
  if (std::exchange(failing_, false)) log_info("the state of the job is saved again, in {}", place_.name);
  return Outcome::saved;
}

}  // namespace lockstep::membership
