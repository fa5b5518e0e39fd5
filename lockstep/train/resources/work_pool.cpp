// A thread pool with a bounded queue; wait() rethrows the first exception of a task.
#include <lockstep/train/task.h>

#include <utility>

namespace lockstep::train {

WorkPool::WorkPool(int threads) : most_waiting_(4 * static_cast<std::size_t>(threads)) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

WorkPool::~WorkPool() {
  const std::lock_guard lock(mutex_);
  ends_ = true;
  waiting_.clear();
  changed_.notify_all();
}

void WorkPool::add(std::function<void()> work) {
  if (threads_.empty()) {
    work();
    return;
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_.size() < most_waiting_; });
  waiting_.push_back(std::move(work));
  changed_.notify_all();
}

void WorkPool::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_.empty() && working_ == 0; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void WorkPool::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
    if (ends_) return;
    const auto work = std::move(waiting_.front());
    waiting_.pop_front();
    ++working_;
    lock.unlock();
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    --working_;
    if (error && !error_) error_ = error;
    changed_.notify_all();
  }
}

}  // namespace lockstep::train
