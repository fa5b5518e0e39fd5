// The thread looks at all pending messages in turn, because a program may wait for any of them first.
#include <apps/python/message_queue.h>

#include <apps/python/torch_errors.h>

#include <lockstep/base/error.h>

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <optional>

namespace lockstep::python {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr microseconds kLongestPause(200);

}  // namespace

MessageQueue::~MessageQueue() { stop("the group was destroyed", milliseconds(0)); }

void MessageQueue::push(QueuedMessage message) {
  const auto refuse = [](const char* why) {
    std::rethrow_exception(as_torch_error(std::make_exception_ptr(Error(ErrorKind::invalid_argument, "group", why))));
  };
  if (process_ != ::getpid()) refuse("this process was forked after its parent had made the group");
  const std::lock_guard lock(mutex_);
  if (stopping_) refuse("the group was destroyed or aborted");
  if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
  waiting_.push_back(std::move(message));
  ++unfinished_;
  changed_.notify_all();
}

// Messages that were called meanwhile; false: the thread is to end.
bool MessageQueue::take(std::deque<QueuedMessage>& begun, microseconds pause, bool idle) {
  std::unique_lock lock(mutex_);
  const auto called = [this] { return !waiting_.empty() || stopping_; };
  if (idle) {
    changed_.wait(lock, called);
  } else if (pause.count() != 0) {
    changed_.wait_for(lock, pause, called);
  }
  if (stopping_) return false;
  begun.swap(waiting_);
  return true;
}

void MessageQueue::count_ended(std::size_t ended) {
  if (ended == 0) return;
  const std::lock_guard lock(mutex_);
  unfinished_ -= ended;
  changed_.notify_all();
}

void MessageQueue::serve() {
  ::pthread_setname_np(::pthread_self(), "lockstep_p2p");
  std::optional<MessageMatching> messages;
  std::exception_ptr failure;
  try {
    messages.emplace(await_group_());
  } catch (...) {
    failure = as_torch_error(std::current_exception());
  }
  std::deque<QueuedMessage> begun;
  for (microseconds pause(0); take(begun, pause, !messages || messages->idle()); begun.clear()) {
    std::size_t ended = 0;
    if (failure) {
      for (auto& message : begun) message.work->complete(failure);
      ended = begun.size();
    } else {
      for (auto& message : begun) messages->begin(std::move(message));
      ended = messages->advance();
    }
    count_ended(ended);
    pause = ended != 0 || !begun.empty() ? microseconds(0) : std::min(pause * 2 + microseconds(1), kLongestPause);
  }
  std::unique_lock lock(mutex_);
  auto left = std::move(waiting_);
  const auto reason = stop_reason_;
  lock.unlock();
  const auto error = as_torch_error(std::make_exception_ptr(Error(ErrorKind::peer_lost, "group", reason)));
  if (messages && !messages->idle()) messages->group().abort(reason);
  if (messages) messages->fail_all(error);
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
