// The nearest common module of an operator's inputs, by dotted names; containers are skipped.
#include <lockstep/global/module_of_operator.h>

namespace lockstep::global {
namespace {

/// The child of `from` on the path down to `to`.
std::string_view one_down(std::string_view from, std::string_view to) {
  return to.substr(0, to.find('.', from.empty() ? 0 : from.size() + 1));
}

}  // namespace

bool is_inside(std::string_view name, std::string_view module) {
  return module.empty() || (name.starts_with(module) && (name.size() == module.size() || name[module.size()] == '.'));
}

std::string_view common_module(std::string_view a, std::string_view b) {
  while (!is_inside(b, a)) a = owner_of(a);
  return a;
}

std::string joining_module(std::span<const std::string> inputs, const std::set<std::string, std::less<>>& containers) {
  if (inputs.empty()) return {};
  const std::string_view last = inputs.back();
  std::string_view joined = last;
  for (const auto& each : inputs) joined = common_module(joined, each);
  while (joined != last && (joined.empty() || containers.contains(joined))) joined = one_down(joined, last);
  return std::string(joined);
}

}  // namespace lockstep::global
