// Work and future: most programs never ask for the future, so it is made on demand.
#include <apps/python/torch_work.h>

#include <ATen/core/jit_type.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace lockstep::python {

using c10::ivalue::Future;

namespace {

[[noreturn]] void refuse_abort() {
  TORCH_CHECK(false, "Lockstep aborts groups, not single operations: call abort() of the group");
}

}  // namespace

TorchWork::TorchWork(int rank, std::uint64_t number, const CallFacts& facts, std::shared_ptr<CallbackThreads> threads)
    : c10d::Work(rank, facts.type, facts.title, std::optional(facts.inputs.empty() ? facts.outputs : facts.inputs)),
      number_(number),
      title_(facts.title != nullptr ? facts.title : "lockstep:allocate"),
      outputs_(facts.outputs),
      threads_(std::move(threads)) {}

bool TorchWork::wait(std::chrono::milliseconds timeout) {
  {
    std::unique_lock lock(mutex_);
    const auto over = [this] { return completed_; };
    TORCH_CHECK(completed_ || process_ == ::getpid(), title_,
                ": this process was forked while the operation was in progress, and never sees its end");
    if (timeout == kNoTimeout) {
      cv_.wait(lock, over);
    } else if (!cv_.wait_for(lock, timeout, over)) {
      TORCH_CHECK(false, "Operation timed out! ", title_, ", operation ", number_,
                  " of its group, did not finish within ", static_cast<double>(timeout.count()) / 1000,
                  " s; it goes on");
    }
    if (exception_) std::rethrow_exception(exception_);
  }
  c10::intrusive_ptr<Future> future;
  {
    const std::lock_guard lock(mutex_);
    if (future_waits_) future = future_;
  }
  // Whoever has waited may read the future's value at once; another thread completes it.
  if (future) future->wait();
  return true;
}

std::vector<at::Tensor> TorchWork::result() {
  TORCH_CHECK(isCompleted(), "the operation is not complete: call wait() before result()");
  return outputs_;
}

int TorchWork::sourceRank() const {
  TORCH_CHECK(opType_ == c10d::OpType::RECV || opType_ == c10d::OpType::RECVANYSOURCE,
              "only the Work of a received message has a source rank");
  return source_;
}

void TorchWork::abort() { refuse_abort(); }

void TorchWork::settle(Future& future, const std::exception_ptr& error) const {
  if (error) {
    future.setErrorIfNeeded(error);
  } else {
    future.markCompleted(c10::IValue(outputs_));
  }
}

c10::intrusive_ptr<Future> TorchWork::getFuture() {
  c10::intrusive_ptr<Future> future;
  std::exception_ptr error;
  {
    const std::lock_guard lock(mutex_);
    if (future_) return future_;
    future_ = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()));
    future = future_;
    future_waits_ = !completed_;
    if (future_waits_) return future;
    error = exception_;
  }
  settle(*future, error);  // it has no callbacks yet
  return future;
}

c10::intrusive_ptr<Future> TorchWork::getFutureResult() {
  const auto outcome = [](Future& future) {
    const auto result = future.hasError() ? c10d::WorkResult::COMM_ERROR : c10d::WorkResult::SUCCESS;
    return c10::IValue(static_cast<std::int64_t>(result));
  };
  return getFuture()->then(outcome, c10::IntType::get());
}

void TorchWork::complete(std::exception_ptr error) {
  finish(error);
  c10::intrusive_ptr<Future> future;
  {
    const std::lock_guard lock(mutex_);
    if (future_waits_) future = future_;
  }
  if (!future) return;
  auto self = c10::intrusive_ptr<TorchWork>::unsafe_reclaim_from_nonowning(this);
  threads_->run(
      [self = std::move(self), future = std::move(future), error = std::move(error)] { self->settle(*future, error); });
}

bool SeveralWorks::isCompleted() {
  return std::all_of(works_.begin(), works_.end(), [](const auto& work) { return work->isCompleted(); });
}

bool SeveralWorks::isSuccess() const {
  return std::all_of(works_.begin(), works_.end(), [](const auto& work) { return work->isSuccess(); });
}

std::exception_ptr SeveralWorks::exception() const {
  for (const auto& work : works_) {
    if (auto error = work->exception()) return error;
  }
  return nullptr;
}

bool SeveralWorks::wait(std::chrono::milliseconds timeout) {
  for (const auto& work : works_) work->wait(timeout);
  return true;
}

std::vector<at::Tensor> SeveralWorks::result() {
  std::vector<at::Tensor> all;
  for (const auto& work : works_) {
    for (auto& tensor : work->result()) all.push_back(std::move(tensor));
  }
  return all;
}

c10::intrusive_ptr<Future> SeveralWorks::getFuture() {
  const auto tensors = c10::ListType::create(c10::TensorType::get());
  c10::List<c10::intrusive_ptr<Future>> each(c10::FutureType::create(tensors));
  for (const auto& work : works_) each.push_back(work->getFuture());
  auto self = c10::intrusive_ptr<SeveralWorks>::unsafe_reclaim_from_nonowning(this);
  return c10::collectAll(each)->then(
      [self](Future& all) {
        if (all.hasError()) std::rethrow_exception(all.exception_ptr());
        return c10::IValue(self->result());
      },
      tensors);
}

void SeveralWorks::abort() { refuse_abort(); }

}  // namespace lockstep::python
