// Conversions of optimizer shards: stretches of memory to boxes of parameters, names by piece to names by place, and
// reads from a source.
#include <lockstep/base/error.h>
#include <lockstep/base/parse.h>
#include <lockstep/train/recovery/shard_state.h>

#include <fmt/format.h>
#include <torch/torch.h>

namespace lockstep::train {
namespace {

constexpr std::string_view kParameter = "parameter";

/// "12.momentum_buffer" belongs to piece 12.
std::pair<std::size_t, std::string> split_name(const std::string& name) {
  const auto dot = name.find('.');
  const auto piece = parse_integer(name.substr(0, dot));
  if (dot == std::string::npos || !piece) fail(ErrorKind::data, "recovery", "no part of a state has a {}", name);
  return {static_cast<std::size_t>(*piece), name.substr(dot + 1)};
}

}  // namespace

NamedTensors shard_state(const std::vector<at::Tensor>& pieces, const torch::optim::Optimizer& optimizer) {
  const auto named = named_by_number(pieces);
  auto state = optimizer_state(optimizer, named);
  for (const auto& [name, piece] : named) state.emplace(fmt::format("{}.{}", name, kParameter), piece.detach());
  return state;
}

NamedTensors named_by_place(const NamedTensors& shard, const std::vector<ParameterShards::Stretch>& stretches,
                            const NamedParameters& parameters) {
  NamedTensors out;
  for (const auto& [name, tensor] : shard) {
    const auto [piece, field] = split_name(name);
    const auto& stretch = stretches.at(piece);
    const auto& parameter = parameters.at(stretch.parameter).first;
    out.emplace(field == kParameter ? fmt::format("{}.model.{}", stretch.begin, parameter)
                                    : fmt::format("{}.optimizer.{}.{}", stretch.begin, parameter, field),
                tensor);
  }
  return out;
}

NamedTensors divided_tensors(const torch::optim::Optimizer& optimizer, const NamedParameters& parameters) {
  NamedTensors divided;
  const auto fields = remembered_tensors(optimizer);
  for (const auto& [name, parameter] : parameters) {
    const auto form = torch::empty_strided(parameter.sizes(), parameter.strides(),
                                           torch::TensorOptions(parameter.scalar_type()).device(torch::kMeta));
    divided.emplace("model." + name, form);
    for (const auto& field : fields) divided.emplace(fmt::format("optimizer.{}.{}", name, field), form);
  }
  return divided;
}

std::vector<HeldPart> parts_of_run(const at::Tensor& run, const at::Tensor& parameter,
                                   const ParameterShards::Stretch& stretch) {
  const auto sizes = parameter.sizes().vec(), strides = parameter.strides().vec();
  const auto order = memory_order(sizes, strides);
  BoxSizes place(order.size());  // of each dimension in that order
  for (std::size_t i = 0; i < order.size(); ++i)
    place[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  std::vector<HeldPart> parts;
  std::int64_t begin = 0;
  for (auto& box : boxes_of_run(sizes, strides, stretch.begin, stretch.elements)) {
    BoxSizes in_order;
    for (const auto dim : order) in_order.push_back(box.sizes[static_cast<std::size_t>(dim)]);
    auto values = run.narrow(0, begin, box.elements()).view(in_order).permute(place);
    begin += box.elements();
    parts.push_back({.box = std::move(box), .values = std::move(values)});
  }
  return parts;
}

NamedTensors read_stretches(StateSource& source, const NamedTensors& outline, const torch::optim::Optimizer& optimizer,
                            const NamedParameters& parameters, const std::vector<ParameterShards::Stretch>& stretches) {
  const torch::NoGradGuard no_grad;
  NamedTensors state;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const auto& [name, parameter] = parameters[stretches[i].parameter];
    for (const auto& field : remembered_tensors(optimizer)) {
      const auto saved = outline.find(fmt::format("{}.{}", name, field));
      if (saved == outline.end()) continue;
      const auto run = torch::empty({stretches[i].elements}, saved->second.scalar_type());
      for (auto& part : parts_of_run(run, parameter, stretches[i])) {
        source.read("optimizer." + saved->first, part.box, part.values);
      }
      state.emplace(fmt::format("{}.{}", i, field), run);
    }
    const auto step = fmt::format("{}.{}", name, kRememberedStep);
    if (outline.contains(step)) {
      state.emplace(fmt::format("{}.{}", i, kRememberedStep), source.read("optimizer." + step));
    }
  }
  return state;
}

}  // namespace lockstep::train
