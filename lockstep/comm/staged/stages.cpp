// A thread over two queues: operations that copy to pinned host memory, and operations on the CPU's backend.
#include <lockstep/comm/staged/stages.h>

#include <lockstep/base/error.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

namespace lockstep::detail::staged {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr microseconds kShortestPause(5);
constexpr microseconds kLongestPause(1000);
constexpr milliseconds kBetweenChecks(50);

}  // namespace

class Stages::Operation : public WorkState {
 public:
  Operation(Plan plan, std::shared_ptr<DeviceOperation> copied) : plan_(std::move(plan)), copied_(std::move(copied)) {}

  // Used by the program's threads.

  void wait(milliseconds timeout) override {
    std::unique_lock lock(mutex_);
    const auto limit = std::min(timeout, milliseconds(std::chrono::hours(24 * 365)));
    if (!changed_.wait_for(lock, limit, [&] { return over_; })) {
      throw Error(ErrorKind::timeout, "staged", fmt::format("it was not complete after {} ms", timeout.count()));
    }
    if (problem_) std::rethrow_exception(problem_);
    if (back_) back_->order_current_stream();
  }

  bool test() override {
    const std::lock_guard lock(mutex_);
    try {
      return over_ && (problem_ || !back_ || back_->is_complete());
    } catch (...) {
      return true;  // a device error: the next wait for it throws
    }
  }

  bool would_return() override {
    const std::lock_guard lock(mutex_);
    return over_;
  }

  // Used by the thread of the stages.

  bool is_copied() const { return copied_->is_complete(); }
  void start() { running_ = plan_.start(); }
  WorkState& running() { return *running_; }
  const std::vector<Pair>& after() const { return plan_.after; }
  void finish(std::shared_ptr<DeviceOperation> back, std::exception_ptr problem) {
    running_.reset();
    plan_ = {};
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
      back_ = std::move(back);
      problem_ = std::move(problem);
    }
    changed_.notify_all();
  }

 private:
  Plan plan_;
  const std::shared_ptr<DeviceOperation> copied_;
  Backend::Pending running_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::shared_ptr<DeviceOperation> back_;  ///< none where nothing is copied back
  std::exception_ptr problem_;
};

Stages::Stages(c10::Device device, milliseconds timeout)
    : device_(device), timeout_(timeout), lane_(device), thread_([this] { serve(); }) {}

Stages::~Stages() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

at::Tensor Stages::on_host(const at::Tensor& tensor) const {
  return at::empty(tensor.sizes(), tensor.options().device(at::kCPU).pinned_memory(device_.is_cuda()));
}

Backend::Pending Stages::run(Plan plan) {
  auto copied = copy(plan.before, /*to_device=*/false);
  auto operation = std::make_shared<Operation>(std::move(plan), std::move(copied));
  {
    const std::lock_guard lock(mutex_);
    called_.push_back(operation);
  }
  changed_.notify_all();
  return operation;
}

void Stages::abort() noexcept {
  {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
  }
  changed_.notify_all();
}

// On the lane, after the earlier work of the current stream. The thread has no work of its own, so its current stream
// is the lane itself.
std::shared_ptr<DeviceOperation> Stages::copy(const std::vector<Pair>& pairs, bool to_device) {
  const std::lock_guard lock(lane_mutex_);
  std::vector<at::Tensor> tensors;
  for (const auto& pair : pairs) tensors.push_back(pair.on_device);
  return lane_.run(tensors, [&] {
    const c10::StreamGuard on_lane(lane_.stream());
    for (const auto& pair : pairs) {
      if (to_device) {
        at::Tensor(pair.on_device).copy_(pair.on_host, /*non_blocking=*/true);
      } else {
        at::Tensor(pair.on_host).copy_(pair.on_device, /*non_blocking=*/true);
      }
    }
  });
}

void Stages::serve() {
  const at::NoGradGuard no_grad;
  const c10::DeviceGuard on_device(device_);
  const c10::StreamGuard on_lane(lane_.stream());
  Operations copying;
  Operations running;
  microseconds pause = kShortestPause;
  std::optional<Clock::time_point> last_moment;
  std::unique_lock lock(mutex_);
  while (true) {
    if (!called_.empty()) pause = kShortestPause;
    copying.splice(copying.end(), called_);
    const bool idle = copying.empty() && running.empty();
    if (stopped_ && !last_moment) last_moment = Clock::now() + timeout_;
    if (aborted_ || (last_moment && Clock::now() >= *last_moment)) {
      const auto ended = std::make_exception_ptr(Error(ErrorKind::peer_lost, "staged", "the group was ended"));
      for (auto* operations : {&copying, &running}) {
        for (const auto& operation : *operations) operation->finish(nullptr, ended);
        operations->clear();
      }
      if (stopped_) return;
      changed_.wait(lock);
    } else if (idle) {
      if (stopped_) return;
      changed_.wait(lock);
    } else {
      lock.unlock();
      pause = go_on(copying, running) ? kShortestPause : std::min(pause * 2, kLongestPause);
      check(running);
      lock.lock();
      if (called_.empty() && !aborted_) changed_.wait_for(lock, pause);
    }
  }
}

// Returns whether any of them reached its next stage.
bool Stages::go_on(Operations& copying, Operations& running) {
  bool moved = false;
  while (!copying.empty()) {
    const auto operation = copying.front();
    try {
      if (!operation->is_copied()) break;
      operation->start();
      running.splice(running.end(), copying, copying.begin());
    } catch (...) {
      copying.pop_front();
      operation->finish(nullptr, std::current_exception());
    }
    moved = true;
  }
  for (auto next = running.begin(); next != running.end();) {
    const auto operation = *next;
    try {
      if (!operation->running().test()) {
        ++next;
        continue;
      }
      operation->running().wait(milliseconds(0));
      operation->finish(operation->after().empty() ? nullptr : copy(operation->after(), /*to_device=*/true), nullptr);
    } catch (...) {
      operation->finish(nullptr, std::current_exception());
    }
    next = running.erase(next);
    moved = true;
  }
  return moved;
}

// Ends operations that wait for a lost rank.
void Stages::check(Operations& running) {
  if (running.empty() || Clock::now() < next_check_) return;
  next_check_ = Clock::now() + kBetweenChecks;
  running.remove_if([](const auto& operation) {
    try {
      operation->running().check_peers();
      return false;
    } catch (...) {
      operation->finish(nullptr, std::current_exception());
      return true;
    }
  });
}

}  // namespace lockstep::detail::staged
