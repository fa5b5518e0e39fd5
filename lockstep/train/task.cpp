// The defaults of Task and Metric: metrics as sum over count, errors for optional operations that are not overridden;
// and their thread pool with a bounded queue, whose wait() rethrows the first exception of a task.
#include <lockstep/base/error.h>
#include <lockstep/train/task.h>

#include <ATen/ATen.h>
#include <c10/util/Type.h>

#include <utility>

namespace lockstep::train {

Measure sum_of(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  return {tensor.sum(at::kDouble), static_cast<double>(tensor.numel())};
}

at::Tensor Task::loss_of(const at::Tensor&) const {
  fail(ErrorKind::unsupported, "train", "a task that gives Outcome::loss_sums has to override Task::loss_of");
}

Sums Task::late_sums() { return {}; }

Values Task::metrics(const Sums& sums) const {
  Values values;
  for (const auto& [name, sum] : sums) {
    if (name != "loss") values.emplace(name, sum.sum / sum.count);
  }
  return values;
}

Values Task::metrics_of_rows(const Rows&) const { return {}; }

at::Tensor Metric::rows(const at::Tensor&, const at::Tensor&) const { return {}; }

Values Metric::values_of_rows(const at::Tensor&) const { return {}; }

Prediction Task::predict(torch::nn::Module&, const samples::Batch&) {
  fail(ErrorKind::unsupported, "predict", "this task does not define what the model predicts: override Task::predict");
}

std::map<std::string, std::string, std::less<>> Task::files(const Prediction&) const { return {}; }

void Task::leave_files(const Prediction&, const std::filesystem::path&, std::int64_t, std::int64_t) const {}

std::vector<ShownPicture> Task::pictures() { return {}; }

std::string Task::show(torch::nn::Module&, const Place&) { return ""; }

at::Tensor Task::nothing(torch::nn::Module&, const samples::Batch&) {
  fail(ErrorKind::unsupported, "train",
       "a rank has a batch without samples, and with parallel.sync_batch_norm it has to take part in the forward pass; "
       "override Task::nothing, use data.remainder=drop, or start fewer ranks");
}

namespace detail {

Outcome as_outcome(const at::Tensor& loss) { return {.loss = loss}; }

void fail_wrong_model(const char* wanted) {
  fail(ErrorKind::invalid_argument, "train", "the task is one for a model of type {}, and the run's is another",
       c10::demangle(wanted));
}

}  // namespace detail
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
