// Kernels of aten::batch_norm that find synchronized layers by a mark on their running mean, and their autograd
// function.
#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/observe.h>
#include <lockstep/comm/operator_trace.h>
#include <lockstep/kernels/batch_norm.h>
#include <lockstep/mirrored/synchronized_batch_norms.h>

#include <ATen/NativeFunctions.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace lockstep::mirrored {
namespace {

using OptionalTensor = c10::optional<at::Tensor>;
using torch::autograd::variable_list;

at::Tensor or_undefined(const OptionalTensor& tensor) { return tensor.value_or(at::Tensor()); }

/// The ranks whose batches are normalized as one, in the form that autograd saves for backward.
struct RanksOfBatch final : torch::CustomClassHolder {
  explicit RanksOfBatch(Group ranks) : group(std::move(ranks)) {}
  const Group group;
};

using RanksPointer = c10::intrusive_ptr<RanksOfBatch>;

/// The mark on the running mean of a synchronized batch norm. A hook, as libtorch keeps hooks with their tensor, but
/// not with its copies; it is never called, because a running mean has no gradient.
struct Mark final : torch::autograd::FunctionPreHook {
  explicit Mark(RanksPointer of_batch) : ranks(std::move(of_batch)) {}
  variable_list operator()(const variable_list& gradients) override { return gradients; }
  const RanksPointer ranks;
};

/// Null if the batch norm is not synchronized.
RanksPointer ranks_of(const at::Tensor& running_mean) {
  namespace impl = torch::autograd::impl;
  if (!running_mean.defined() || impl::get_autograd_meta(running_mean) == nullptr) return {};
  for (const auto& hook : impl::hooks(running_mean)) {
    if (const auto* mark = dynamic_cast<const Mark*>(hook.get())) return mark->ranks;
  }
  return {};
}

/// The arguments of a batch norm that autograd does not differentiate.
struct Normalization {
  at::Tensor running_mean;
  at::Tensor running_var;
  double momentum;
  double eps;
  RanksPointer ranks;
};

constexpr std::string_view kNormPlace = "batch norm over all ranks";

struct Normalized {
  kernels::NormalizedPart part;
  double values;  ///< of each channel, on all ranks
};

/// Normalizes by the statistics of all ranks' batches; updates the running statistics.
Normalized normalize(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                     const Normalization& options) {
  const auto& norm = kernels::batch_norm_for(input);
  const auto& group = options.ranks->group;
  const auto mine = norm.moments(input);
  const CallPlace place(name_place(group, kNormPlace));
  const auto moments = norm.joined(all_gather(mine, group).view({group.size(), mine.numel()}));
  const double values = moments[0].item<double>();
  if (values == 1) {
    fail(ErrorKind::invalid_argument, "data_parallel",
         "a batch norm that trains needs more than one value of each channel; all ranks together have one");
  }
  auto part = norm.normalized(input, or_undefined(weight), or_undefined(bias), moments, options.eps);
  if (values > 0) {
    norm.update_running(options.running_mean, part.mean, options.momentum);
    if (options.running_var.defined()) {
      norm.update_running(options.running_var, part.sample_variance, options.momentum);
    }
  }
  return {std::move(part), values};
}

class SynchronizedBatchNorm : public torch::autograd::Function<SynchronizedBatchNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const OptionalTensor& weight, const OptionalTensor& bias, const Normalization& options) {
    auto [part, values] = normalize(input, weight, bias, options);
    context->save_for_backward({input, or_undefined(weight), part.mean, part.inverse_deviation});
    context->saved_data["values"] = values;
    context->saved_data["ranks"] = c10::IValue::make_capsule(options.ranks);
    if (const auto of_bias = or_undefined(bias); of_bias.defined()) context->saved_data["bias"] = of_bias.scalar_type();
    return std::move(part.output);
  }

  static variable_list backward(torch::autograd::AutogradContext* context, const variable_list& gradients) {
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
    const auto ranks = c10::static_intrusive_pointer_cast<RanksOfBatch>(data["ranks"].toCapsule());
    const auto& norm = kernels::batch_norm_for(input);

    auto sums = norm.gradient_sums(gradients[0], input, mean, inverse_deviation);
    variable_list found(4);
    // The gradients from this rank's pictures only, as for other parameters.
    const auto own = [&](int row, at::ScalarType dtype) {
      return sums[row].to(dtype, /*non_blocking=*/false, /*copy=*/true);
    };
    if (weight.defined()) found[1] = own(0, weight.scalar_type());
    if (data.find("bias") != data.end()) found[2] = own(1, data["bias"].toScalarType());
    const CallPlace place(name_place(ranks->group, kNormPlace));
    all_reduce(sums, ranks->group);
    found[0] =
        norm.gradient_of_input(gradients[0], input, weight, mean, inverse_deviation, sums, data["values"].toDouble());
    return found;
  }
};

/// The ranks of the batch norm; null if it is not synchronized, or if libtorch must report invalid arguments.
RanksPointer ranks_for(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                       const OptionalTensor& running_mean, const OptionalTensor& running_var) {
  auto ranks = ranks_of(or_undefined(running_mean));
  if (!ranks || input.dim() < 2) return {};
  for (const auto& each : {weight, bias, running_mean, running_var}) {
    const auto tensor = or_undefined(each);
    if (tensor.defined() && (tensor.dim() != 1 || tensor.numel() != input.size(1))) return {};
  }
  return ranks;
}

/// `kWithGraph`: with autograd, which inference mode leaves out.
template <bool kWithGraph>
at::Tensor batch_norm(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                      const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training,
                      double momentum, double eps, bool cudnn_enabled) {
  auto ranks = training ? ranks_for(input, weight, bias, running_mean, running_var) : RanksPointer();
  if (!ranks) {
    return at::native::batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps,
                                  cudnn_enabled);
  }
  const Normalization options{or_undefined(running_mean), or_undefined(running_var), momentum, eps, std::move(ranks)};
  if constexpr (kWithGraph) return SynchronizedBatchNorm::apply(input, weight, bias, options);
  // Buffers of collectives must be normal tensors, because other threads write them.
  const c10::InferenceMode no_inference(false);
  const at::NoGradGuard no_grad;
  return normalize(input, weight, bias, options).part.output;
}

// libtorch implements batch_norm by other operators on every device; these kernels have priority. Registered when the
// library is loaded, because the dispatcher must not change while another thread uses it.
TORCH_LIBRARY_IMPL(aten, AutogradCPU, library) { library.impl("batch_norm", TORCH_FN(batch_norm<true>)); }
TORCH_LIBRARY_IMPL(aten, CPU, library) { library.impl("batch_norm", TORCH_FN(batch_norm<false>)); }
TORCH_LIBRARY_IMPL(aten, AutogradCUDA, library) { library.impl("batch_norm", TORCH_FN(batch_norm<true>)); }
TORCH_LIBRARY_IMPL(aten, CUDA, library) { library.impl("batch_norm", TORCH_FN(batch_norm<false>)); }

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

SynchronizedBatchNorms::SynchronizedBatchNorms(const torch::nn::Module& module, const Group& group) {
  for (const auto& item : module.named_modules()) {
    const auto running_mean = running_mean_of(*item.value());
    if (!running_mean) continue;
    require_usable(*running_mean, item.key());
    running_means_.push_back(*running_mean);
    for (const auto& buffer : item.value()->buffers(/*recurse=*/false)) buffers_.push_back(buffer);
  }
  const auto is_marked = [](const at::Tensor& each) { return ranks_of(each) != nullptr; };
  const bool here = std::any_of(running_means_.begin(), running_means_.end(), is_marked);
  const auto ranks = c10::make_intrusive<RanksOfBatch>(*group.subgroup(group.ranks()));
  // Each rank detects this only for its own batch norms, so the ranks reduce the result.
  auto refused = torch::full({1}, here ? 1 : 0, torch::kInt);
  all_reduce(refused, group);
  if (refused.item<int>() != 0) {
    fail(ErrorKind::invalid_argument, "data_parallel",
         "a batch norm of this module is synchronized by another DataParallel, which is still alive on {}",
         here ? "this rank" : "another rank");
  }
  for (const auto& each : running_means_) {  // a module that is used at two places is listed twice
    if (!is_marked(each)) torch::autograd::impl::add_hook(each, std::make_unique<Mark>(ranks));
  }
}

SynchronizedBatchNorms::~SynchronizedBatchNorms() {
  for (const auto& each : running_means_) torch::autograd::impl::clear_hooks(each);
}

bool SynchronizedBatchNorms::covers(const at::Tensor& buffer) const {
  return std::any_of(buffers_.begin(), buffers_.end(), [&](const auto& each) { return each.is_same(buffer); });
}

}  // namespace lockstep::mirrored
