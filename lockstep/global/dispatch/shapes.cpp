#include <lockstep/global/dispatch/shapes.h>
#include <lockstep/global/dispatch/tensor_arguments.h>

#include <ATen/ATen.h>

namespace lockstep::global {
namespace {

at::Tensor as_meta(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  auto meta =
      at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta).requires_grad(false));
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) meta.unsafeGetTensorImpl()->set_wrapped_number(true);
  return meta;
}

void collect(const c10::IValue& value, std::vector<LogicalShape>& shapes) {
  if (value.isTensor()) {
    shapes.push_back(shape_of(value.toTensor()));
  } else if (value.isTensorList()) {
    for (const auto& each : value.toTensorVector()) shapes.push_back(shape_of(each));
  }
}

std::optional<std::vector<LogicalShape>> by_meta_kernel(const c10::OperatorHandle& op, const OpInfo& info,
                                                        torch::jit::Stack arguments) {
  std::vector<at::Tensor> metas;
  for (const auto& each : input_tensors(info, arguments)) metas.push_back(as_meta(each.tensor));
  replace_inputs(info, arguments, metas);
  const auto& called = without_out(op, info, arguments, at::kMeta);
  replace_device(arguments, at::kMeta);
  try {
    called.callBoxed(arguments);
  } catch (const c10::Error&) {
    return std::nullopt;  // no such kernel; wrong arguments are found by the real one
  }
  std::vector<LogicalShape> shapes;
  for (const auto& value : arguments) collect(value, shapes);
  return shapes;
}

std::optional<std::vector<LogicalShape>> by_rule(const OpCall& call, const Rule* rule, c10::ScalarType dtype) {
  if (!rule || !rule->shapes) return std::nullopt;
  std::vector<LogicalShape> shapes;
  for (auto& sizes : rule->shapes(call)) {
    auto strides = row_major_strides(sizes);
    shapes.push_back({.sizes = std::move(sizes), .strides = std::move(strides), .dtype = dtype});
  }
  return shapes;
}

c10::ScalarType dtype_of_first(const OpInfo& info, const torch::jit::Stack& arguments) {
  for (const auto& each : input_tensors(info, arguments)) {
    if (each.tensor.defined()) return each.tensor.scalar_type();
  }
  return c10::ScalarType::Float;
}

}  // namespace

LogicalShape shape_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {.sizes = tensor.sizes().vec(), .strides = tensor.strides().vec(), .dtype = tensor.scalar_type()};
}

void replace_device(torch::jit::Stack& arguments, c10::Device device) {
  for (auto& value : arguments) {
    if (value.isDevice() && value.toDevice().type() == kDeviceType) value = device;
  }
}

std::optional<std::vector<LogicalShape>> result_shapes(const c10::OperatorHandle& op, const OpInfo& info,
                                                       const torch::jit::Stack& arguments, const OpCall& call,
                                                       const Rule* rule) {
  if (auto shapes = by_meta_kernel(op, info, arguments)) return shapes;
  return by_rule(call, rule, dtype_of_first(info, arguments));
}

}  // namespace lockstep::global
