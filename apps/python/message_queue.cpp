// The thread tests all pending messages in turn, because a program may wait for any of them first.
#include <apps/python/message_queue.h>

#include <apps/python/device_copies.h>
#include <apps/python/flat.h>
#include <apps/python/torch_errors.h>

#include <lockstep/base/error.h>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <utility>

namespace lockstep::python {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// How often a message is looked at by a wait, which also finds lost peers.
constexpr auto kBetweenChecks = milliseconds(300);
constexpr auto kOneCheck = milliseconds(60);
constexpr auto kLongestPause = std::chrono::microseconds(200);

std::exception_ptr current_torch_error() { return as_torch_error(std::current_exception()); }

}  // namespace

/// A message whose transfer has begun.
struct MessageQueue::Pending {
  QueuedMessage message;
  at::Tensor memory;  ///< on the host, flat
  lockstep::Work transfer;
  Clock::time_point begun = Clock::now();
  Clock::time_point checked = Clock::now();

  void finish(std::exception_ptr error) {
    try {
      if (!error && !message.sends) store();
    } catch (...) {
      error = current_torch_error();
    }
    memory.reset();
    message.tensor.reset();
    message.work->complete(error);
  }

 private:
  void store() {
    if (memory.data_ptr() == message.tensor.data_ptr()) return;
    const at::NoGradGuard no_grad;
    store_slices(memory, {message.tensor});
    await_device({{}, {message.tensor}});
  }
};

MessageQueue::~MessageQueue() {
  if (process_ == ::getpid()) {
    stop("the group was destroyed", milliseconds(0));
  } else if (thread_.joinable()) {
    thread_.detach();
  }
}

void MessageQueue::push(QueuedMessage message) {
  const std::lock_guard lock(mutex_);
  if (stopping_) {
    std::rethrow_exception(as_torch_error(
        std::make_exception_ptr(Error(ErrorKind::invalid_argument, "group", "the group was destroyed or aborted"))));
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
  waiting_.push_back(std::move(message));
  ++unfinished_;
  changed_.notify_all();
}

void MessageQueue::start(QueuedMessage message, Group& group, std::vector<Pending>& pending) {
  Pending one;
  one.message = std::move(message);
  try {
    const auto& tensor = one.message.tensor;
    const at::NoGradGuard no_grad;
    one.memory = flat(tensor.is_cpu() ? tensor : tensor.to(at::kCPU));
    one.transfer = one.message.sends ? send_async(one.memory, group, one.message.peer, one.message.tag)
                                     : receive_async(one.memory, group, one.message.peer, one.message.tag);
  } catch (...) {
    return one.finish(current_torch_error());
  }
  pending.push_back(std::move(one));
}

// Whether the message is over.
bool MessageQueue::advance(Pending& pending, Group& group) {
  try {
    if (pending.transfer.test()) {
      pending.transfer.wait();
      pending.finish(nullptr);
      return true;
    }
    const auto now = Clock::now();
    const auto& message = pending.message;
    if (now - pending.begun >= message.limit) {
      const auto why =
          fmt::format("the {} rank {} did not finish within {:.1f} s", message.sends ? "send to" : "receive from",
                      message.peer, static_cast<double>(message.limit.count()) / 1000);
      group.abort(why);
      throw Error(ErrorKind::timeout, message.sends ? "send" : "receive", why);
    }
    if (now - pending.checked < kBetweenChecks) return false;
    pending.checked = now;
    try {
      pending.transfer.wait(kOneCheck);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::timeout) throw;
      return false;  // it is still in progress
    }
    pending.finish(nullptr);
  } catch (...) {
    pending.finish(current_torch_error());
  }
  return true;
}

void MessageQueue::serve() {
  ::pthread_setname_np(::pthread_self(), "lockstep_p2p");
  std::optional<Group> group;
  std::exception_ptr failure;
  try {
    group = await_group_();
  } catch (...) {
    failure = current_torch_error();
  }
  std::vector<Pending> pending;
  auto pause = std::chrono::microseconds(0);
  for (;;) {
    std::deque<QueuedMessage> begun;
    {
      std::unique_lock lock(mutex_);
      if (pending.empty()) changed_.wait(lock, [this] { return !waiting_.empty() || stopping_; });
      if (!pending.empty() && pause.count() != 0) {
        changed_.wait_for(lock, pause, [this] { return !waiting_.empty() || stopping_; });
      }
      if (stopping_) break;
      begun.swap(waiting_);
    }
    const auto before = pending.size() + begun.size();
    for (auto& message : begun) {
      if (failure) {
        message.work->complete(failure);
      } else {
        start(std::move(message), *group, pending);
      }
    }
    std::erase_if(pending, [&](Pending& one) { return advance(one, *group); });
    const auto over = before - pending.size();
    pause =
        over != 0 ? std::chrono::microseconds(0) : std::min(pause * 2 + std::chrono::microseconds(1), kLongestPause);
    if (over == 0) continue;
    const std::lock_guard lock(mutex_);
    unfinished_ -= over;
    changed_.notify_all();
  }
  std::deque<QueuedMessage> left;
  std::string reason;
  {
    const std::lock_guard lock(mutex_);
    left.swap(waiting_);
    reason = stop_reason_;
  }
  const auto error = as_torch_error(std::make_exception_ptr(Error(ErrorKind::peer_lost, "group", reason)));
  if (group && !pending.empty()) group->abort(reason);
  for (auto& one : pending) one.finish(error);
  for (auto& message : left) message.work->complete(error);
}

void MessageQueue::stop(const std::string& reason, milliseconds patience) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [this] { return unfinished_ == 0; });
    stopping_ = true;
    stop_reason_ = reason;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace lockstep::python
