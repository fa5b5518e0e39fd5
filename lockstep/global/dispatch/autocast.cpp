// The operators that autocast runs in 16 bits or in float32 for global tensors, and the boxed kernels that cast.
#include <lockstep/compat/libtorch.h>
#include <lockstep/global/dispatch/autocast.h>
#include <lockstep/global/tensor_state.h>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <array>
#include <string>

namespace lockstep::global {
namespace {

// Fast in 16 bits.
constexpr std::array<const char*, 16> kIn16Bits{"conv1d",
                                                "conv2d",
                                                "conv3d",
                                                "conv_transpose1d",
                                                "conv_transpose2d.input",
                                                "conv_transpose3d.input",
                                                "_convolution",
                                                "linear",
                                                "matmul",
                                                "mm",
                                                "addmm",
                                                "bmm",
                                                "baddbmm",
                                                "addbmm",
                                                "conv1d.padding",
                                                "conv2d.padding"};

// Sums over many elements, or with results outside of what 16 bits can hold.
constexpr std::array<const char*, 28> kInFloat{"binary_cross_entropy",
                                               "binary_cross_entropy_with_logits",
                                               "mse_loss",
                                               "l1_loss",
                                               "smooth_l1_loss",
                                               "huber_loss",
                                               "kl_div",
                                               "nll_loss",
                                               "nll_loss2d",
                                               "cosine_embedding_loss",
                                               "hinge_embedding_loss",
                                               "margin_ranking_loss",
                                               "triplet_margin_loss",
                                               "soft_margin_loss",
                                               "multilabel_margin_loss",
                                               "multi_margin_loss",
                                               "poisson_nll_loss",
                                               "gaussian_nll_loss",
                                               "ctc_loss.IntList",
                                               "ctc_loss.Tensor",
                                               "prod",
                                               "prod.dim_int",
                                               "logsumexp",
                                               "dist",
                                               "cdist",
                                               "cosine_similarity",
                                               "grid_sampler",
                                               "quantile"};

bool is_cast(const at::Tensor& tensor, at::ScalarType to) {
  return tensor.defined() && is_global(tensor) && tensor.is_floating_point() && tensor.scalar_type() != at::kDouble &&
         tensor.scalar_type() != to;
}

void cast_and_call(const c10::OperatorHandle& op, torch::jit::Stack* stack, at::ScalarType to) {
  const c10::impl::ExcludeDispatchKeyGuard no_casts{c10::DispatchKeySet(compat::kGlobalAutocastKey)};
  const auto arguments = op.schema().arguments().size();
  for (auto value = stack->end() - static_cast<std::ptrdiff_t>(arguments); value != stack->end(); ++value) {
    if (value->isTensor() && is_cast(value->toTensor(), to)) *value = value->toTensor().to(to);
  }
  op.callBoxed(*stack);
}

void to_16_bits(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  cast_and_call(op, stack, compat::global_autocast_dtype());
}

void to_float(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  cast_and_call(op, stack, at::kFloat);
}

/// Not all libtorch versions have all of these operators.
bool exists(const char* name) {
  const std::string full = name;
  const auto dot = full.find('.');
  return c10::Dispatcher::singleton()
      .findSchema({"aten::" + full.substr(0, dot), dot == std::string::npos ? "" : full.substr(dot + 1)})
      .has_value();
}

}  // namespace

void set_autocast(std::optional<c10::ScalarType> dtype) { compat::set_global_autocast(dtype); }

void register_autocast(torch::Library& fallback, torch::Library& aten) {
  fallback.fallback(torch::CppFunction::makeFallthrough());
  for (const auto* name : kIn16Bits) {
    if (exists(name)) aten.impl(name, torch::CppFunction::makeFromBoxedFunction<&to_16_bits>());
  }
  for (const auto* name : kInFloat) {
    if (exists(name)) aten.impl(name, torch::CppFunction::makeFromBoxedFunction<&to_float>());
  }
}

}  // namespace lockstep::global
