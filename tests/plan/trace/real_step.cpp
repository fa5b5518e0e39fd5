#include "real_step.h"

#include <ATen/record_function.h>
#include <torch/torch.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep::test {
namespace {

CallCounts* counting = nullptr;

std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& call) {
  std::string name = call.name();
  if (!name.starts_with("aten::")) return nullptr;
  name = name.substr(6);
  if (name.ends_with('_') && !name.ends_with("__")) name.pop_back();
  for (const auto& input : call.inputs()) {
    if (!input.isTensor() || !input.toTensor().defined()) continue;
    ++(*counting)[fmt::format("{} {}", name, input.toTensor().sizes().vec())];
    return nullptr;
  }
  ++(*counting)[name];
  return nullptr;
}

}  // namespace

CallCounts calls_of(const std::function<void()>& run) {
  CallCounts counts;
  counting = &counts;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&count).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  run();
  at::removeCallback(handle);
  counting = nullptr;
  return counts;
}

CallCounts calls_of(const plan::Graph& graph) {
  CallCounts counts;
  for (const auto& node : graph.nodes) {
    std::string key = node.call.name;
    for (const auto& tensor : node.call.tensors) {
      if (!tensor.defined) continue;
      key += fmt::format(" {}", tensor.sizes);
      break;
    }
    ++counts[key];
  }
  return counts;
}

}  // namespace lockstep::test
