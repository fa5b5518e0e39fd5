// Calls of operators as the sharding rules see them.
#pragma once

#include <lockstep/global/rules/signature.h>

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep::test {

inline global::TensorInfo shaped(global::Sizes sizes) {
  global::TensorInfo info{.sizes = std::move(sizes)};
  info.strides.resize(info.sizes.size());
  std::int64_t stride = 1;
  for (std::size_t dim = info.sizes.size(); dim-- > 0;) {
    info.strides[dim] = stride;
    stride *= info.sizes[dim];
  }
  return info;
}

/// `names` are those of the tensor arguments, one for each of `inputs`; other arguments follow.
inline global::OpCall call_of(std::string name, const std::vector<std::pair<std::string, global::Sizes>>& inputs,
                              const std::vector<global::Sizes>& outputs,
                              std::vector<std::pair<std::string, global::Argument>> others = {}) {
  global::OpCall call;
  call.name = std::move(name);
  for (const auto& [argument, sizes] : inputs) {
    call.arguments.emplace_back(argument, global::TensorAt{call.tensors.size()});
    call.tensors.push_back(shaped(sizes));
  }
  for (auto& each : others) call.arguments.push_back(std::move(each));
  for (const auto& sizes : outputs) call.outputs.push_back(shaped(sizes));
  return call;
}

/// "S0,R->S1": what a signature says, short; "*" for an input that may lie anyhow.
inline std::string shown(const global::Signature& signature) {
  const auto one = [](const Placement& placement) -> std::string {
    if (placement.is_shard()) return fmt::format("S{}", placement.dim);
    if (placement.is_replicate()) return "R";
    return placement.op == ReduceOp::sum ? "P" : to_string(placement);
  };
  std::string text;
  const auto list = [&](const std::string& each, bool first) { text.append(first ? "" : ",").append(each); };
  for (const auto& input : signature.inputs) list(input ? one(*input) : "*", text.empty());
  text.append("->");
  for (std::size_t i = 0; i < signature.outputs.size(); ++i) list(one(signature.outputs[i]), i == 0);
  return text;
}

/// All signatures of the rule for a call on an axis of `ranks`, shown, but not those with partial means and extremes.
inline std::vector<std::string> signatures_of(global::OpCall call, int ranks = 2) {
  call.ranks = call.all_ranks = ranks;
  std::vector<std::string> all;
  const auto* rule = global::find_rule(call.name);
  if (!rule) return {"no rule"};
  for (const auto& each : rule->signatures(call)) {
    const auto text = shown(each);
    if (text.find("Partial(") == std::string::npos) all.push_back(text);
  }
  return all;
}

}  // namespace lockstep::test
