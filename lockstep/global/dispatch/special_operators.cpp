// Kernels of _foreach_ lists, matmul and linear with their derivatives, embedding gradients and scatters into views.
#include <lockstep/base/error.h>
#include <lockstep/comm/arguments.h>
#include <lockstep/global/dispatch/kernels.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/tensor_state.h>

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/linear_native.h>
#include <ATen/ops/matmul_native.h>
#include <ATen/ops/tensordot_native.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace lockstep::global {
namespace {

constexpr std::string_view kScatter = "_scatter";

bool is_list_of_one_each(const c10::IValue& value) { return value.isTensorList() || value.isList(); }

/// The operator for one tensor: aten::_foreach_add_.ScalarList -> aten::add_.Scalar.
c10::OperatorHandle operator_for_one(const c10::OperatorHandle& op) {
  constexpr std::string_view kPrefix = "aten::_foreach_";
  const auto& schema = op.schema();
  const auto what = schema.name().substr(kPrefix.size());
  // _foreach_norm may be given a dtype since libtorch 2.4, and aten::norm takes none without dimensions.
  const std::string name = fmt::format("aten::{}", what == "norm" ? "linalg_vector_norm" : what);
  const std::string overload = schema.overload_name() == "List"         ? "Tensor"
                               : schema.overload_name() == "ScalarList" ? "Scalar"
                                                                        : schema.overload_name();
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& each : {overload, std::string("Tensor"), std::string("")}) {
    const auto found = dispatcher.findSchema({name, each});
    if (found && found->schema().arguments().size() >= schema.arguments().size()) return *found;
  }
  fail(ErrorKind::unsupported, "global view", "there is no operator {} to do what {} does for one tensor", name,
       schema.name());
}

/// For each argument of the operator for one tensor, the index of the argument of the list operator: the one with the
/// same name ("dtype"), otherwise the one at the same position ("scalars" for "value"), unless that matches another
/// name.
std::vector<std::optional<std::size_t>> places_in(const c10::FunctionSchema& lists, const c10::FunctionSchema& one) {
  std::vector<std::optional<std::size_t>> places;
  for (std::size_t i = 0; i < one.arguments().size(); ++i) {
    if (const auto named = lists.argumentIndexWithName(one.arguments()[i].name())) {
      places.emplace_back(*named);
    } else if (i < lists.arguments().size() && !one.argumentIndexWithName(lists.arguments()[i].name())) {
      places.emplace_back(i);
    } else {
      places.emplace_back(std::nullopt);
    }
  }
  return places;
}

}  // namespace

void run_foreach(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto one = operator_for_one(op);
  const auto& schema = op.schema();
  const auto arguments = torch::jit::pop(*stack, schema.arguments().size());
  const auto places = places_in(schema, one.schema());
  c10::List<at::Tensor> results;
  const std::size_t count = arguments[0].toListRef().size();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!is_list_of_one_each(arguments[i]) || arguments[i].toListRef().size() == count) continue;
    fail(ErrorKind::invalid_argument, "global view",
         "{}: \"{}\" has {} elements, and \"{}\" has {}; one for each is needed", schema.name(),
         schema.arguments()[0].name(), count, schema.arguments()[i].name(), arguments[i].toListRef().size());
  }
  for (std::size_t i = 0; i < count; ++i) {
    torch::jit::Stack call;
    for (std::size_t k = 0; k < places.size(); ++k) {
      if (places[k]) {
        const auto& value = arguments[*places[k]];
        call.push_back(is_list_of_one_each(value) ? value.toListRef()[i] : value);
      } else {
        call.push_back(one.schema().arguments()[k].default_value().value_or(c10::IValue()));
      }
    }
    one.callBoxed(call);
    results.push_back(call[0].toTensor());
  }
  if (!schema.returns().empty()) stack->emplace_back(std::move(results));
}

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

namespace {

bool may_become(const at::Tensor& own, const at::Tensor& other) {
  if (is_global(own) && !is_global(other)) {
    fail(ErrorKind::unsupported, "global view",
         "the global tensor {} would become an ordinary one, {}, which torch::load() and Module::to() do with the "
         "parameters of a module. Load the module before distribute_module(), or read whole values into what it has "
         "with parameter.copy_(values) under torch::NoGradGuard, or checkpoints of any mesh with load_sharded()",
         describe(own), detail::describe(other));
  }
  return true;  // also for two global tensors, which have the same implementation
}

at::Tensor dense_gradient_of_embedding(const at::Tensor& gradient, const at::Tensor& indices, std::int64_t rows,
                                       std::int64_t padding, bool scale_by_frequency) {
  return at::embedding_dense_backward(gradient, indices, rows, padding, scale_by_frequency);
}

}  // namespace

void register_kinds(torch::Library& aten) {
  aten.impl("_has_compatible_shallow_copy_type", TORCH_FN(may_become));
  aten.impl("embedding_sparse_backward", TORCH_FN(dense_gradient_of_embedding));
}

namespace {

/// slice_scatter(self, src, dim, ...) and similar: a copy of self with src written to its slice(dim, ...).
void scatter_into_view(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const auto& name = op.schema().name();
  const std::string view_name = name.substr(0, name.size() - kScatter.size());
  auto& dispatcher = c10::Dispatcher::singleton();
  auto view = dispatcher.findSchema({view_name, ""});
  for (const char* overload : {"Tensor", "int"}) {
    if (!view) view = dispatcher.findSchema({view_name, overload});
  }
  const auto arguments = torch::jit::pop(*stack, op.schema().arguments().size());
  const auto result = arguments[0].toTensor().clone();
  torch::jit::Stack call{result};
  call.insert(call.end(), arguments.begin() + 2, arguments.end());
  view.value().callBoxed(call);
  call[0].toTensor().copy_(arguments[1].toTensor());
  stack->emplace_back(result);
}

}  // namespace

void register_scatters_into_views(torch::Library& aten) {
  for (const char* view : {"slice", "select", "diagonal", "as_strided"}) {
    aten.impl(fmt::format("{}{}", view, kScatter).c_str(),
              torch::CppFunction::makeFromBoxedFunction<&scatter_into_view>());
  }
}

}  // namespace lockstep::global
