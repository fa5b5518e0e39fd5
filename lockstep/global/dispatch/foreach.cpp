#include <lockstep/base/error.h>
#include <lockstep/global/dispatch/foreach.h>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep::global {
namespace {

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

}  // namespace lockstep::global
