#include <lockstep/global/dispatch/batched_products.h>

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/linear_native.h>
#include <ATen/ops/matmul_native.h>
#include <ATen/ops/tensordot_native.h>
#include <torch/csrc/autograd/custom_function.h>

#include <numeric>

namespace lockstep::global {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor sum_over_leading(const at::Tensor& a, const at::Tensor& b);

/// Weights are usually transposed views in a product. The gradient is computed in the memory order of the weight,
/// because autograd keeps such a gradient, and copies one with other strides.
at::Tensor gradient_of_matrix(const at::Tensor& a, const at::Tensor& matrix, const at::Tensor& gradient) {
  const bool turned = matrix.stride(0) == 1 && matrix.stride(1) == matrix.size(0);
  return turned ? sum_over_leading(gradient, a.conj()).t() : sum_over_leading(a.conj(), gradient);
}

/// [.., m, k] x [.., k, n].
struct Product : torch::autograd::Function<Product> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& a, const at::Tensor& b) {
    context->save_for_backward({a, b});
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return at::matmul(a, b);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto& [a, b, gradient] = std::tie(saved[0], saved[1], gradients[0]);
    if (!gradient.defined()) return {{}, {}};
    at::Tensor of_a;
    at::Tensor of_b;
    if (context->needs_input_grad(0)) of_a = gradient.matmul(b.conj().transpose(-2, -1)).sum_to_size(a.sizes());
    if (context->needs_input_grad(1)) {
      of_b = b.dim() == 2 ? gradient_of_matrix(a, b, gradient)
                          : a.conj().transpose(-2, -1).matmul(gradient).sum_to_size(b.sizes());
    }
    return {of_a, of_b};
  }
};

/// [.., k] and [.., n] to [k, n], summed over all leading dimensions: the gradient of a matrix of weights.
struct SumOverLeading : torch::autograd::Function<SumOverLeading> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& a, const at::Tensor& b) {
    context->save_for_backward({a, b});
    std::vector<std::int64_t> leading(static_cast<std::size_t>(a.dim() - 1));
    std::iota(leading.begin(), leading.end(), 0);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return at::tensordot(a, b, leading, leading);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto& [a, b, gradient] = std::tie(saved[0], saved[1], gradients[0]);
    if (!gradient.defined()) return {{}, {}};
    at::Tensor of_a;
    at::Tensor of_b;
    if (context->needs_input_grad(0)) of_a = b.conj().matmul(gradient.t());
    if (context->needs_input_grad(1)) of_b = a.conj().matmul(gradient);
    return {of_a, of_b};
  }
};

at::Tensor sum_over_leading(const at::Tensor& a, const at::Tensor& b) { return SumOverLeading::apply(a, b); }

at::Tensor product_of(const at::Tensor& a, const at::Tensor& b) {
  if (a.dim() <= 2 && b.dim() <= 2) return at::native::matmul(a, b);
  if (a.dim() == 1) return product_of(a.unsqueeze(0), b).squeeze(-2);
  if (b.dim() == 1) return product_of(a, b.unsqueeze(1)).squeeze(-1);
  return Product::apply(a, b);
}

at::Tensor linear_of(const at::Tensor& input, const at::Tensor& weight, const c10::optional<at::Tensor>& bias) {
  if (input.dim() <= 2) return at::native::linear(input, weight, bias);
  const auto product = product_of(input, weight.t());
  return bias && bias->defined() ? product + *bias : product;
}

/// A wrapper: with -fsanitize=undefined the address of a function in another library is not a constant expression for
/// g++.
at::Tensor tensordot_of(const at::Tensor& a, const at::Tensor& b, c10::IntArrayRef dims_of_a,
                        c10::IntArrayRef dims_of_b) {
  return at::native::tensordot(a, b, dims_of_a, dims_of_b);
}

}  // namespace

void register_derivatives_of_products(torch::Library& aten) {
  aten.impl("matmul", TORCH_FN(product_of));
  aten.impl("linear", TORCH_FN(linear_of));
  aten.impl("tensordot", TORCH_FN(tensordot_of));
}

}  // namespace lockstep::global
