#include <lockstep/global/dispatch/tensor_arguments.h>

#include <ATen/ATen.h>

namespace lockstep::global {
namespace {

bool is_optional_tensor_list(const c10::IValue& value) {
  return value.isList() && !value.isTensorList() && !value.isIntList() && !value.isBoolList() &&
         !value.isDoubleList() && value.type()->isSubtypeOf(*c10::ListType::ofOptionalTensors());
}

}  // namespace

std::vector<TensorArgument> input_tensors(const OpInfo& info, const torch::jit::Stack& arguments) {
  std::vector<TensorArgument> found;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (info.is_out[i]) continue;
    const auto& value = arguments[i];
    if (value.isTensor()) {
      found.push_back({.tensor = value.toTensor(), .position = i});
    } else if (value.isTensorList()) {
      for (const auto& tensor : value.toTensorVector()) found.push_back({.tensor = tensor, .position = i});
    } else if (is_optional_tensor_list(value)) {
      for (const auto& each : value.toListRef()) {
        found.push_back({.tensor = each.isNone() ? at::Tensor() : each.toTensor(), .position = i});
      }
    }
  }
  return found;
}

void replace_inputs(const OpInfo& info, torch::jit::Stack& arguments, const std::vector<at::Tensor>& locals) {
  auto next = locals.begin();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (info.is_out[i]) continue;
    auto& value = arguments[i];
    if (value.isTensor()) {
      value = *next++;
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (std::size_t n = value.toTensorList().size(); n > 0; --n) list.push_back(*next++);
      value = std::move(list);
    } else if (is_optional_tensor_list(value)) {
      c10::List<c10::optional<at::Tensor>> list;
      for (std::size_t n = value.toListRef().size(); n > 0; --n) {
        list.push_back(next->defined() ? c10::optional<at::Tensor>(*next) : c10::nullopt);
        ++next;
      }
      value = std::move(list);
    }
  }
}

const c10::OperatorHandle& without_out(const c10::OperatorHandle& op, const OpInfo& info, torch::jit::Stack& arguments,
                                       c10::Device device) {
  if (!info.has_out) return op;
  torch::jit::Stack kept;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!info.is_out[i]) {
      kept.push_back(std::move(arguments[i]));
    } else if (!info.functional) {
      kept.push_back(at::empty({0}, at::TensorOptions(device).dtype(arguments[i].toTensor().scalar_type())));
    }
  }
  arguments = std::move(kept);
  return info.functional ? *info.functional : op;
}

}  // namespace lockstep::global
