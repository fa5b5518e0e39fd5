// The defaults of Task and Metric: metrics as sum over count, errors for optional operations that are not overridden.
#include <lockstep/base/error.h>
#include <lockstep/train/task.h>

#include <ATen/ATen.h>
#include <c10/util/Type.h>

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
}  // namespace lockstep::train
