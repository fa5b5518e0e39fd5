#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/scheduler/state_writer.h>

#include <utility>

namespace lockstep::scheduler {
namespace {

constexpr auto kTryAgain = std::chrono::seconds(1);

}  // namespace

StateWriter::StateWriter(StatePlace place)
    : place_(std::move(place)), thread_([this](const std::stop_token& stop) { work(stop); }) {}

StateWriter::~StateWriter() = default;

void StateWriter::put(std::string text) {
  const std::lock_guard lock(mutex_);
  waiting_ = std::move(text);
  ++put_;
  changed_.notify_all();
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
    const bool done = save(text);
    lock.lock();
    if (done) {
      saved_ = number;
      changed_.notify_all();
    } else {
      if (stop.stop_requested()) return;
      changed_.wait_for(lock, stop, kTryAgain, [] { return false; });
      if (!waiting_) waiting_ = text;
    }
  }
}

bool StateWriter::save(const std::string& text) {
  try {
    place_.save(text);
  } catch (const std::exception& error) {
    if (!std::exchange(failing_, true)) {
      log_error(
          "the state of the job is not saved, which is tried again every second; until it is, a scheduler that is "
          "started anew would not know all of it: {}",
          error.what());
    }
    return false;
  }
  if (std::exchange(failing_, false)) log_info("the state of the job is saved again, in {}", place_.name);
  return true;
}

}  // namespace lockstep::scheduler
