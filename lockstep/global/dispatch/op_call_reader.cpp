#include <lockstep/global/dispatch/op_call_reader.h>
#include <lockstep/global/dispatch/tensor_arguments.h>
#include <lockstep/global/tensor_state.h>

#include <c10/core/ScalarType.h>

namespace lockstep::global {
namespace {

Argument read_argument(const c10::IValue& value, std::size_t first_tensor, std::size_t tensors) {
  if (value.isNone()) return std::monostate();
  if (value.isTensor()) return TensorAt{first_tensor};
  if (tensors > 0 || value.isTensorList()) return TensorsAt{.first = first_tensor, .count = tensors};
  if (value.isInt()) return value.toInt();
  if (value.isBool()) return value.toBool();
  if (value.isString()) return value.toStringRef();
  if (value.isIntList()) return value.toIntVector();
  if (value.isBoolList()) {
    Sizes flags;
    for (const bool each : value.toBoolList()) flags.push_back(each ? 1 : 0);
    return flags;
  }
  return AnyNumber();
}

}  // namespace

TensorInfo tensor_info(std::vector<std::int64_t> sizes, c10::ScalarType dtype) {
  return {.sizes = std::move(sizes),
          .element_bytes = static_cast<int>(c10::elementSize(dtype)),
          .floating = c10::isFloatingType(dtype),
          .complex = c10::isComplexType(dtype),
          .truth = dtype == c10::ScalarType::Bool,
          .defined = true};
}

TensorInfo tensor_info(const at::Tensor& tensor) {
  if (!tensor.defined()) return {.sizes = {}, .defined = false};
  auto info = tensor_info(tensor.sizes().vec(), tensor.scalar_type());
  info.strides = tensor.strides().vec();
  info.offset = tensor.storage_offset();
  info.ordinary = !is_global(tensor);
  return info;
}

TensorInfo tensor_info(const LogicalShape& shape) {
  auto info = tensor_info(shape.sizes, shape.dtype);
  info.strides = shape.strides;
  info.offset = shape.offset;
  return info;
}

OpCall read_call(const c10::OperatorHandle& op, const OpInfo& info, const torch::jit::Stack& arguments) {
  OpCall call;
  call.name = info.name;
  call.overload = info.overload;
  call.in_place = info.written_self.has_value();
  const auto tensors = input_tensors(info, arguments);
  for (const auto& each : tensors) call.tensors.push_back(tensor_info(each.tensor));
  std::size_t next = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (info.is_out[i]) continue;
    const std::size_t first = next;
    while (next < tensors.size() && tensors[next].position == i) ++next;
    call.arguments.emplace_back(op.schema().arguments()[i].name(), read_argument(arguments[i], first, next - first));
  }
  return call;
}

}  // namespace lockstep::global
