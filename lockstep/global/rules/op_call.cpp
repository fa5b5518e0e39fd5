// The look-up of a call's arguments by name, as tensors, numbers, flags or lists.
#include <lockstep/global/rules/op_call.h>

#include <functional>
#include <numeric>
#include <stdexcept>

namespace lockstep::global {

std::int64_t TensorInfo::elements() const {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

const Argument* OpCall::find(std::string_view argument) const {
  for (const auto& [name_of, value] : arguments) {
    if (name_of == argument) return &value;
  }
  return nullptr;
}

bool OpCall::has(std::string_view argument) const {
  const Argument* value = find(argument);
  if (!value || std::holds_alternative<std::monostate>(*value)) return false;
  const auto* tensor_at = std::get_if<TensorAt>(value);
  return !tensor_at || tensors[tensor_at->index].defined;
}

std::size_t OpCall::tensor(std::string_view argument) const {
  const Argument* value = find(argument);
  if (const auto* at = value ? std::get_if<TensorAt>(value) : nullptr) return at->index;
  throw std::logic_error("the rule for " + name + " reads a tensor " + std::string(argument) +
                         " that the call does not have");
}

TensorsAt OpCall::tensor_list(std::string_view argument) const {
  const Argument* value = find(argument);
  if (const auto* at = value ? std::get_if<TensorsAt>(value) : nullptr) return *at;
  throw std::logic_error("the rule for " + name + " reads tensors " + std::string(argument) +
                         " that the call does not have");
}

std::int64_t OpCall::integer(std::string_view argument, std::int64_t otherwise) const {
  const Argument* value = find(argument);
  const auto* number = value ? std::get_if<std::int64_t>(value) : nullptr;
  return number ? *number : otherwise;
}

bool OpCall::flag(std::string_view argument, bool otherwise) const {
  const Argument* value = find(argument);
  const auto* flag_value = value ? std::get_if<bool>(value) : nullptr;
  return flag_value ? *flag_value : otherwise;
}

Sizes OpCall::integers(std::string_view argument) const {
  const Argument* value = find(argument);
  if (!value) return {};
  if (const auto* list = std::get_if<Sizes>(value)) return *list;
  if (const auto* number = std::get_if<std::int64_t>(value)) return {*number};
  return {};
}

std::int64_t wrapped_dim(std::int64_t dim, std::int64_t dims) { return dim < 0 ? dim + dims : dim; }

}  // namespace lockstep::global
