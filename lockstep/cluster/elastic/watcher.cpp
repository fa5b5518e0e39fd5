#include <lockstep/base/error.h>
#include <lockstep/cluster/elastic/watcher.h>

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep::cluster::elastic {
namespace {

Ticket joined(AgentMembership& membership) {
  membership.join(AgentLiveness::Time::clock::now());
  return membership.ticket();
}

}  // namespace

Flag::Flag() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!fd_) fail(ErrorKind::io, "launch", "cannot make an eventfd: {}", std::strerror(errno));
}

void Flag::raise() noexcept { static_cast<void>(::eventfd_write(fd_.get(), 1)); }

void Flag::lower() noexcept {
  eventfd_t ignored = 0;
  static_cast<void>(::eventfd_read(fd_.get(), &ignored));
}

Watcher::Watcher(AgentMembership membership)
    : membership_(std::move(membership)), ticket_(joined(membership_)), keys_(membership_.keys()) {
  thread_ = std::thread([this] { run(); });
}

Watcher::~Watcher() { stop(); }

void Watcher::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watcher::say(const NodeReport& report) {
  {
    const std::lock_guard lock(mutex_);
    to_say_ = report;
    told_ = false;
  }
  wake_.notify_all();
}

void Watcher::wait_told(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, limit, [this] { return told_ || error_; });
}

JobState Watcher::state() {
  changed_.lower();
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  return state_;
}

int Watcher::over_fd(int round) {
  const std::lock_guard lock(mutex_);
  over_.lower();
  round_ = round;
  publish_locked();
  return over_.fd();
}

void Watcher::publish_locked() {
  changed_.raise();
  const bool running = state_.phase == Phase::running && state_.round == round_;
  if (!running || error_) over_.raise();
}

void Watcher::run() {
  std::unique_lock lock(mutex_);
  try {
    while (!stop_) {
      const bool saying = to_say_.has_value();
      if (saying) membership_.say(*std::exchange(to_say_, std::nullopt));
      lock.unlock();
      const auto begin = AgentLiveness::Time::clock::now();
      membership_.tick(begin);
      membership_.excuse(begin, AgentLiveness::Time::clock::now());
      lock.lock();
      const JobState& now = membership_.state();
      const bool news = now.phase != state_.phase || now.round != state_.round;
      state_ = now;
      if (saying && !to_say_) told_ = true;
      if (news) publish_locked();
      wake_.notify_all();
      wake_.wait_for(lock, membership_.interval(), [this] { return stop_ || to_say_; });
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    error_ = std::current_exception();
    publish_locked();
    wake_.notify_all();
  }
}

}  // namespace lockstep::cluster::elastic
