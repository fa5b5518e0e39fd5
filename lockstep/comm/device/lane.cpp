// A side stream with high priority for collectives, joined to the program's current stream by events on both sides; and
// a thread that polls the oldest operation: it fails the group after a timeout or an error that persists.
#include <lockstep/base/error.h>
#include <lockstep/comm/device/lane.h>

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace lockstep::detail {
namespace {

using Streams = c10::impl::VirtualGuardImpl;
using std::chrono::microseconds;

class DeviceState : public WorkState {
 public:
  explicit DeviceState(std::shared_ptr<DeviceOperation> operation) : operation_(std::move(operation)) {}

  void wait(std::chrono::milliseconds) override { operation_->order_current_stream(); }
  bool test() override { return operation_->is_complete(); }
  bool would_return() override { return true; }

 private:
  const std::shared_ptr<DeviceOperation> operation_;
};

}  // namespace

DeviceOperation::DeviceOperation(c10::Device device)
    : device_(device), begun_(device.type()), complete_(device.type()) {}

bool DeviceOperation::has_begun() const {
  const std::lock_guard lock(mutex_);
  return begun_.query();
}

bool DeviceOperation::is_complete() const {
  const std::lock_guard lock(mutex_);
  return complete_.query();
}

void DeviceOperation::order_current_stream() const {
  const c10::DeviceGuard on_device(device_);
  const std::lock_guard lock(mutex_);
  complete_.block(Streams(device_.type()).getStream(device_));
}

Lane::Lane(c10::Device device)
    : device_(device), stream_(Streams(device.type()).getStreamFromGlobalPool(device, /*isHighPriority=*/true)) {}

std::shared_ptr<DeviceOperation> Lane::run(c10::ArrayRef<at::Tensor> tensors, c10::function_ref<void()> launch) {
  const c10::DeviceGuard on_device(device_);
  const Streams streams(device_.type());
  c10::Event ready(device_.type());
  ready.record(streams.getStream(device_));
  ready.block(stream_);
  for (const auto& tensor : tensors) {
    if (tensor.defined()) streams.recordDataPtrOnStream(tensor.storage().data_ptr(), stream_);
  }
  auto operation = std::make_shared<DeviceOperation>(device_);
  operation->begun_.record(stream_);
  launch();
  operation->complete_.record(stream_);
  last_ = operation;
  return operation;
}

Backend::Pending pending(std::shared_ptr<DeviceOperation> operation) {
  return std::make_shared<DeviceState>(std::move(operation));
}

bool await_current_stream(c10::Device device, std::chrono::steady_clock::time_point deadline,
                          const std::function<void()>& meanwhile) {
  const c10::DeviceGuard on_device(device);
  c10::Event reached(device.type());
  reached.record(Streams(device.type()).getStream(device));
  constexpr microseconds kLongestPause(1000);
  for (microseconds pause(10); !reached.query(); pause = std::min(pause * 2, kLongestPause)) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    if (meanwhile) meanwhile();
    std::this_thread::sleep_for(pause);
  }
  return true;
}

struct DeviceWatch::State {
  using Clock = std::chrono::steady_clock;
  using milliseconds = std::chrono::milliseconds;

  struct Watched {
    Call call;
    std::shared_ptr<const DeviceOperation> operation;
    std::optional<Clock::time_point> began = std::nullopt;  ///< on the device, as far as this thread has observed
  };

  static constexpr milliseconds kPause = milliseconds(5);
  static constexpr milliseconds kBetweenChecks = milliseconds(50);
  static constexpr milliseconds kUntilItCounts = milliseconds(300);

  State(c10::Device where, milliseconds limit, WatchActions what)
      : device(where), timeout(limit), actions(std::move(what)) {}

  void run();
  void look(std::unique_lock<std::mutex>& lock);
  std::exception_ptr problem_of(const Watched& first);

  const c10::Device device;
  const milliseconds timeout;
  const WatchActions actions;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Watched> running;
  bool stopped = false;
  bool aborted = false;
  bool ended = false;  ///< end_engine was called
  std::thread thread;

  // Used only by the thread.
  Clock::time_point next_check{};
  std::optional<Clock::time_point> troubled_since;
};

void DeviceWatch::State::run() {
  std::unique_lock lock(mutex);
  while (!stopped) {
    if (aborted && !ended) {
      ended = true;
      running.clear();
      lock.unlock();
      actions.end_engine();
      lock.lock();
    } else if (running.empty() || aborted) {
      changed.wait(lock);
    } else {
      look(lock);
      if (!running.empty() && !stopped && !aborted) changed.wait_for(lock, kPause);
    }
  }
}

void DeviceWatch::State::look(std::unique_lock<std::mutex>& lock) {
  while (!running.empty() && running.front().operation->is_complete()) {
    running.pop_front();
    troubled_since.reset();
  }
  if (running.empty()) return;
  auto& front = running.front();
  if (!front.began && front.operation->has_begun()) front.began = Clock::now();
  if (!front.began) return;
  const Watched first = front;
  lock.unlock();
  const auto problem = problem_of(first);
  const bool failed = problem && !first.operation->is_complete();
  if (failed) actions.failed(first.call, problem, std::chrono::round<milliseconds>(Clock::now() - *first.began));
  lock.lock();
  if (failed) aborted = true;
}

std::exception_ptr DeviceWatch::State::problem_of(const Watched& first) {
  const auto now = Clock::now();
  if (now - *first.began > timeout) {
    return std::make_exception_ptr(Error(ErrorKind::timeout, first.call.op,
                                         fmt::format("it runs on {} for {} ms", device.str(), timeout.count())));
  }
  if (now < next_check) return nullptr;
  next_check = now + kBetweenChecks;
  try {
    actions.check();
    troubled_since.reset();
    return nullptr;
  } catch (...) {
    if (!troubled_since) troubled_since = now;
    return now - *troubled_since >= kUntilItCounts ? std::current_exception() : nullptr;
  }
}

DeviceWatch::DeviceWatch(c10::Device device, std::chrono::milliseconds timeout, WatchActions actions)
    : state_(std::make_shared<State>(device, timeout, std::move(actions))) {
  state_->thread = std::thread([state = state_] {
    const c10::DeviceGuard on_device(state->device);  // otherwise the first query would open device 0
    state->run();
  });
}

DeviceWatch::~DeviceWatch() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopped = true;
  }
  state_->changed.notify_all();
  if (state_->thread.get_id() == std::this_thread::get_id()) {
    state_->thread.detach();  // an action released the last owner; the thread keeps its state
  } else {
    state_->thread.join();
  }
}

void DeviceWatch::add(const Call& call, std::shared_ptr<const DeviceOperation> operation) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->aborted) return;
    state_->running.push_back({call, std::move(operation)});
    if (state_->running.size() > 1) return;  // the thread checks again soon in any case
  }
  state_->changed.notify_all();
}

void DeviceWatch::abort() noexcept {
  {
    const std::lock_guard lock(state_->mutex);
    state_->aborted = true;
  }
  state_->changed.notify_all();
}

bool DeviceWatch::is_over() const noexcept {
  const std::lock_guard lock(state_->mutex);
  return state_->aborted;
}

}  // namespace lockstep::detail
