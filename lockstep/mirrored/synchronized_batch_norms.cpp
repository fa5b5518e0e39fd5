// Kernels of aten::batch_norm that find synchronized layers by their running mean, and their autograd function.
#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/kernels/batch_norm.h>
#include <lockstep/mirrored/synchronized_batch_norms.h>

#include <ATen/NativeFunctions.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace lockstep::mirrored {
namespace {

using OptionalTensor = c10::optional<at::Tensor>;

at::Tensor or_undefined(const OptionalTensor& tensor) { return tensor.value_or(at::Tensor()); }

}  // namespace

/// The communication of a module's batch norms with the other ranks.
class BatchNormExchange : public torch::CustomClassHolder {
 public:
  explicit BatchNormExchange(Group group) : group_(std::move(group)) {}

  /// Gathers each rank's [n] to [ranks, n].
  at::Tensor gather(const at::Tensor& mine) const {
    return all_gather(mine, group_).view({group_.size(), mine.numel()});
  }

  void sum(at::Tensor& mine) const { all_reduce(mine, group_); }

 private:
  Group group_;
};

using ExchangePointer = c10::intrusive_ptr<BatchNormExchange>;

/// The synchronized batch norms of this process, by their running means.
class ExchangeTable {
 public:
  /// Null if the batch norm is not synchronized.
  ExchangePointer find(const at::Tensor& running_mean) const {
    if (count_ == 0 || !running_mean.defined()) return {};
    const std::shared_lock lock(mutex_);
    const auto found = by_mean_.find(running_mean.unsafeGetTensorImpl());
    return found == by_mean_.end() ? ExchangePointer() : found->second;
  }

  bool has_any(const std::vector<at::Tensor>& running_means) const {
    const std::shared_lock lock(mutex_);
    return std::any_of(running_means.begin(), running_means.end(),
                       [&](const at::Tensor& each) { return by_mean_.contains(each.unsafeGetTensorImpl()); });
  }

  void add(const std::vector<at::Tensor>& running_means, const ExchangePointer& exchange) {
    const std::unique_lock lock(mutex_);
    for (const auto& each : running_means) by_mean_.emplace(each.unsafeGetTensorImpl(), exchange);
    count_ = by_mean_.size();
  }

  void remove(const std::vector<at::Tensor>& running_means) {
    const std::unique_lock lock(mutex_);
    for (const auto& each : running_means) by_mean_.erase(each.unsafeGetTensorImpl());
    count_ = by_mean_.size();
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<const c10::TensorImpl*, ExchangePointer> by_mean_;
  std::atomic<std::size_t> count_{0};  ///< number of entries, so that processes without synchronized batch norms need
                                       ///< no lock
};

namespace {

/// The table of the process: operators of libtorch get only tensors, so the table must be global. Its users share
/// ownership.
const std::shared_ptr<ExchangeTable>& the_table() {
  static const auto table = std::make_shared<ExchangeTable>();
  return table;
}

/// The arguments of a batch norm that autograd does not differentiate.
struct Normalization {
  at::Tensor running_mean;
  at::Tensor running_var;
  double momentum;
  double eps;
  ExchangePointer exchange;
};

struct Statistics {
  double values;  ///< of each channel, on all ranks
  at::Tensor mean;
  at::Tensor inverse_deviation;
};

/// The statistics of all ranks' batches; updates the running statistics.
Statistics meet(const at::Tensor& input, const Normalization& options) {
  const auto moments = kernels::joined_moments(options.exchange->gather(kernels::moments_of(input)));
  const double values = moments[0].item<double>();
  if (values == 1) {
    fail(ErrorKind::invalid_argument, "data_parallel",
         "a batch norm that trains needs more than one value of each channel; all ranks together have one");
  }
  auto [mean, inverse_deviation, sample_variance] = kernels::statistics_from(moments, options.eps);
  if (values > 0) {
    kernels::update_running(options.running_mean, mean, options.momentum);
    kernels::update_running(options.running_var, sample_variance, options.momentum);
  }
  return {values, std::move(mean), std::move(inverse_deviation)};
}

class BatchNorm : public torch::autograd::Function<BatchNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const OptionalTensor& weight, const OptionalTensor& bias, const Normalization& options) {
    const auto statistics = meet(input, options);
    context->save_for_backward({input, or_undefined(weight), statistics.mean, statistics.inverse_deviation});
    context->saved_data["values"] = statistics.values;
    context->saved_data["exchange"] = c10::IValue::make_capsule(options.exchange);
    if (const auto of_bias = or_undefined(bias); of_bias.defined()) context->saved_data["bias"] = of_bias.scalar_type();
    return kernels::normalized(input, or_undefined(weight), or_undefined(bias), statistics.mean,
                               statistics.inverse_deviation);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    if (at::GradMode::is_enabled()) {
      fail(ErrorKind::unsupported, "data_parallel",
           "gradients of synchronized batch norms cannot be differentiated again (create_graph)");
    }
    const auto saved = context->get_saved_variables();
    const auto& input = saved[0];
    const auto& weight = saved[1];
    const auto& mean = saved[2];
    const auto& inverse_deviation = saved[3];
    auto& data = context->saved_data;
    const auto exchange = c10::static_intrusive_pointer_cast<BatchNormExchange>(data["exchange"].toCapsule());

    auto sums = kernels::gradient_sums(gradients[0], input, mean, inverse_deviation);
    torch::autograd::variable_list found(4);
    // The gradients from this rank's pictures only, as for other parameters.
    const auto own = [&](int row, at::ScalarType dtype) {
      return sums[row].to(dtype, /*non_blocking=*/false, /*copy=*/true);
    };
    if (weight.defined()) found[1] = own(0, weight.scalar_type());
    if (data.find("bias") != data.end()) found[2] = own(1, data["bias"].toScalarType());
    exchange->sum(sums);
    found[0] = kernels::gradient_of_input(gradients[0], input, weight, mean, inverse_deviation, sums,
                                          data["values"].toDouble());
    return found;
  }
};

/// The exchange of the batch norm; null if it is not synchronized, or if libtorch must report invalid arguments.
ExchangePointer exchange_for(const at::Tensor& input, bool training, const OptionalTensor& weight,
                             const OptionalTensor& bias, const OptionalTensor& running_mean,
                             const OptionalTensor& running_var) {
  if (!training) return {};
  auto exchange = the_table()->find(or_undefined(running_mean));
  if (!exchange || input.dim() < 2) return {};
  for (const auto& each : {weight, bias, running_mean, running_var}) {
    const auto tensor = or_undefined(each);
    if (tensor.defined() && (tensor.dim() != 1 || tensor.numel() != input.size(1))) return {};
  }
  return exchange;
}

at::Tensor batch_norm(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                      const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training,
                      double momentum, double eps, bool cudnn_enabled) {
  auto exchange = exchange_for(input, training, weight, bias, running_mean, running_var);
  if (!exchange) {
    return at::native::batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps,
                                  cudnn_enabled);
  }
  return BatchNorm::apply(
      input, weight, bias,
      Normalization{or_undefined(running_mean), or_undefined(running_var), momentum, eps, std::move(exchange)});
}

/// The same without autograd, for inference mode.
at::Tensor batch_norm_without_graph(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                    const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                    bool training, double momentum, double eps, bool cudnn_enabled) {
  auto exchange = exchange_for(input, training, weight, bias, running_mean, running_var);
  if (!exchange) {
    return at::native::batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps,
                                  cudnn_enabled);
  }
  // Buffers of collectives must be normal tensors, because other threads write them.
  const c10::InferenceMode no_inference(false);
  const at::NoGradGuard no_grad;
  const auto [values, mean, inverse_deviation] =
      meet(input, {or_undefined(running_mean), or_undefined(running_var), momentum, eps, std::move(exchange)});
  return kernels::normalized(input, or_undefined(weight), or_undefined(bias), mean, inverse_deviation);
}

// libtorch implements batch_norm by other operators on every device; these kernels have priority. Registered when the
// library is loaded, because the dispatcher must not change while another thread uses it.
TORCH_LIBRARY_IMPL(aten, AutogradCPU, library) { library.impl("batch_norm", TORCH_FN(batch_norm)); }
TORCH_LIBRARY_IMPL(aten, CPU, library) { library.impl("batch_norm", TORCH_FN(batch_norm_without_graph)); }
TORCH_LIBRARY_IMPL(aten, AutogradCUDA, library) { library.impl("batch_norm", TORCH_FN(batch_norm)); }
TORCH_LIBRARY_IMPL(aten, CUDA, library) { library.impl("batch_norm", TORCH_FN(batch_norm_without_graph)); }

/// The running mean of a batch norm, undefined if it has none; nullopt for other modules.
std::optional<at::Tensor> running_mean_of(const torch::nn::Module& module) {
  if (const auto* norm = module.as<torch::nn::BatchNorm2d>()) return norm->running_mean;
  if (const auto* norm = module.as<torch::nn::BatchNorm1d>()) return norm->running_mean;
  if (const auto* norm = module.as<torch::nn::BatchNorm3d>()) return norm->running_mean;
  return std::nullopt;
}

void require_usable(const at::Tensor& running_mean, const std::string& name) {
  if (!running_mean.defined()) {
    fail(ErrorKind::unsupported, "data_parallel",
         "batch norm \"{}\" has no running statistics, so evaluation would not differ from training; one that is "
         "synchronized needs track_running_stats(true)",
         name);
  }
}

}  // namespace

SynchronizedBatchNorms::SynchronizedBatchNorms(const torch::nn::Module& module, const Group& group)
    : table_(the_table()) {
  for (const auto& item : module.named_modules()) {
    const auto running_mean = running_mean_of(*item.value());
    if (!running_mean) continue;
    require_usable(*running_mean, item.key());
    running_means_.push_back(*running_mean);
    for (const auto& buffer : item.value()->buffers(/*recurse=*/false)) buffers_.push_back(buffer);
  }
  const auto own = group.subgroup(group.ranks());
  // Each rank detects this only for its own batch norms, so the ranks reduce the result.
  auto refused = torch::full({1}, table_->has_any(running_means_) ? 1 : 0, torch::kInt);
  const bool here = refused.item<int>() != 0;
  all_reduce(refused, group);
  if (refused.item<int>() == 0) {
    table_->add(running_means_, c10::make_intrusive<BatchNormExchange>(*own));
    return;
  }
  fail(ErrorKind::invalid_argument, "data_parallel",
       "a batch norm of this module is synchronized by another DataParallel, which is still alive on {}",
       here ? "this rank" : "another rank");
}

SynchronizedBatchNorms::~SynchronizedBatchNorms() { table_->remove(running_means_); }

bool SynchronizedBatchNorms::covers(const at::Tensor& buffer) const {
  return std::any_of(buffers_.begin(), buffers_.end(), [&](const auto& each) { return each.is_same(buffer); });
}

}  // namespace lockstep::mirrored
