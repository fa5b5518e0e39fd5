#include <lockstep/base/error.h>
#include <lockstep/global/dispatch/foreach.h>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <optional>
#include <string>

namespace lockstep::global {
namespace {

bool is_list_of_one_each(const c10::IValue& value) { return value.isTensorList() || value.isList(); }

/// aten::_foreach_add_.ScalarList -> aten::add_.Scalar, for each element of whatever is a list.
c10::OperatorHandle operator_for_one(const c10::OperatorHandle& op) {
  constexpr std::string_view kPrefix = "aten::_foreach_";
  const auto& schema = op.schema();
  const std::string name = fmt::format("aten::{}", schema.name().substr(kPrefix.size()));
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

}  // namespace

void run_foreach(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto one = operator_for_one(op);
  const auto arguments = torch::jit::pop(*stack, op.schema().arguments().size());
  c10::List<at::Tensor> results;
  const std::size_t count = arguments[0].toListRef().size();
  for (std::size_t i = 0; i < count; ++i) {
    torch::jit::Stack call;
    for (const auto& value : arguments) call.push_back(is_list_of_one_each(value) ? value.toListRef()[i] : value);
    for (std::size_t rest = call.size(); rest < one.schema().arguments().size(); ++rest) {
      const auto& otherwise = one.schema().arguments()[rest].default_value();
      call.push_back(otherwise ? *otherwise : c10::IValue());
    }
    one.callBoxed(call);
    results.push_back(call[0].toTensor());
  }
  if (!op.schema().returns().empty()) stack->emplace_back(std::move(results));
}

}  // namespace lockstep::global
