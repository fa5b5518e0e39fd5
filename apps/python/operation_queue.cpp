// One thread at a time uses a group: the queue's own, or a caller that waits anyway.
#include <apps/python/operation_queue.h>

#include <apps/python/device_copies.h>
#include <apps/python/torch_errors.h>

#include <lockstep/base/error.h>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <pthread.h>
#include <unistd.h>

#include <utility>

namespace lockstep::python {
namespace {

std::exception_ptr stopped(const std::string& reason) {
  return as_torch_error(std::make_exception_ptr(Error(ErrorKind::peer_lost, "group", reason)));
}

}  // namespace

OperationQueue::OperationQueue(Member member) : member_(std::move(member)), process_(::getpid()) {
  thread_ = std::thread([this] { serve(); });
}

OperationQueue::~OperationQueue() { stop("the group was destroyed", std::chrono::milliseconds(0)); }

void OperationQueue::connect() {
  std::unique_ptr<MetGroups> connection;
  std::exception_ptr failure;
  try {
    connection = std::make_unique<MetGroups>(meet(member_, cancelled_));
  } catch (...) {
    failure = as_torch_error(std::current_exception());
  }
  const std::lock_guard lock(mutex_);
  connection_ = std::move(connection);
  if (!failure_) failure_ = failure;
  met_ = true;
  changed_.notify_all();
}

void OperationQueue::serve() {
  ::pthread_setname_np(::pthread_self(), "lockstep");
  connect();
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !busy_ && (!waiting_.empty() || stopping_); });
    if (waiting_.empty()) return;
    auto request = std::move(waiting_.front());
    waiting_.pop_front();
    busy_ = true;
    lock.unlock();
    execute(request);
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

std::exception_ptr OperationQueue::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void OperationQueue::execute(QueuedCall& request) {
  std::exception_ptr error;
  try {
    if (auto failed = failure()) std::rethrow_exception(failed);
    const at::NoGradGuard no_grad;
    const at::AutoDispatchBelowADInplaceOrView below;
    DeviceCopies copies(request.tensors);
    request.execute(connection_->collectives, copies.tensors(), request.limit);
    copies.finish();
  } catch (const Error& seen) {
    // An operation with a limit of its own is still in progress here and perhaps on other ranks.
    if (seen.kind() == ErrorKind::timeout && connection_) connection_->collectives.abort(seen.what());
    error = as_torch_error(std::current_exception());
  } catch (...) {
    error = as_torch_error(std::current_exception());
  }
  // The tensors are released before a waiting thread continues, which may measure the memory.
  request.execute = nullptr;
  request.tensors = {};
  request.work->complete(error);
  request.work.reset();
}

// Before any lock, which a thread of the parent process may have held while it forked.
void OperationQueue::require_own_process() const {
  if (process_ == ::getpid()) return;
  throw Error(ErrorKind::unsupported, "group",
              "this process was forked after its parent had made the group, which the child cannot use; call "
              "init_process_group in the child (start method \"spawn\" of torch.multiprocessing)");
}

void OperationQueue::push(QueuedCall request, bool sync) try {
  require_own_process();
  std::unique_lock lock(mutex_);
  if (stopping_) throw Error(ErrorKind::invalid_argument, "group", "the group was destroyed or aborted");
  if (!sync || !met_ || busy_ || !waiting_.empty()) {
    waiting_.push_back(std::move(request));
    changed_.notify_all();
    return;
  }
  busy_ = true;
  lock.unlock();
  execute(request);
  lock.lock();
  busy_ = false;
  if (!waiting_.empty() || stopping_) changed_.notify_all();
} catch (const Error&) {
  std::rethrow_exception(as_torch_error(std::current_exception()));
}

Group OperationQueue::await_messages() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return met_; });
  if (failure_) std::rethrow_exception(failure_);
  return connection_->messages;
}

void OperationQueue::stop(const std::string& reason, std::chrono::milliseconds patience) {
  std::deque<QueuedCall> left;
  std::optional<Group> unfinished;
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    // The others would wait for a rank that left between their arrival and their connection.
    const auto idle = [this] { return met_ && waiting_.empty() && !busy_; };
    if (!changed_.wait_for(lock, patience, idle)) {
      left.swap(waiting_);
      if (!failure_) failure_ = stopped(reason);
      if (connection_) unfinished = connection_->collectives;
    }
    *cancelled_ = true;
    changed_.notify_all();
  }
  if (unfinished) unfinished->abort(reason);
  for (auto& request : left) request.work->complete(stopped(reason));
  left.clear();
  unfinished.reset();
  if (thread_.joinable()) thread_.join();
  const std::unique_lock lock(mutex_);
  if (!failure_) failure_ = stopped(reason);
  connection_.reset();
}

}  // namespace lockstep::python
