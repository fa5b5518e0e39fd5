#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/train/sharded_state.h>

#include <fmt/format.h>
#include <torch/torch.h>

namespace lockstep::train {
namespace {

at::Tensor find(const NamedTensors& tensors, std::string_view owner, std::string_view field) {
  const auto found = tensors.find(fmt::format("{}.{}", owner, field));
  return found == tensors.end() ? at::Tensor() : found->second;
}

/// By parameter, how many updates each saw; 0 for none.
at::Tensor steps_of(const NamedTensors& of_pieces, const ParameterShards& shards) {
  at::Tensor steps = torch::zeros({static_cast<std::int64_t>(shards.parameters().size())}, torch::kLong);
  for (std::size_t i = 0; i < shards.pieces().size(); ++i) {
    const auto step = find(of_pieces, std::to_string(i), kRememberedStep);
    if (step.defined()) steps[static_cast<std::int64_t>(shards.owner(i))] = step;
  }
  all_reduce(steps, shards.group(), ReduceOp::max);
  return steps;
}

void require_fits(const std::string& name, const at::Tensor& saved, const at::Tensor& parameter) {
  if (!saved.defined() || saved.sizes() == parameter.sizes()) return;
  fail(ErrorKind::data, "optimizer state", "{} has {} elements in the checkpoint, the model's parameter needs {}", name,
       saved.numel(), parameter.numel());
}

}  // namespace

NamedTensors sharded_optimizer_state(const torch::optim::Optimizer& optimizer, const ParameterShards& shards,
                                     const NamedParameters& parameters) {
  const auto of_pieces = optimizer_state(optimizer, named_by_number(shards.pieces()));
  NamedTensors out;
  for (const auto& field : remembered_tensors(optimizer)) {
    std::vector<at::Tensor> tensors;
    for (std::size_t i = 0; i < shards.pieces().size(); ++i) {
      tensors.push_back(find(of_pieces, std::to_string(i), field));
    }
    const auto whole = shards.whole(tensors);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      if (whole[i].defined()) out.emplace(fmt::format("{}.{}", parameters[i].first, field), whole[i]);
    }
  }
  const auto steps = steps_of(of_pieces, shards);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto step = steps[static_cast<std::int64_t>(i)];
    if (step.item<std::int64_t>() > 0) out.emplace(fmt::format("{}.{}", parameters[i].first, kRememberedStep), step);
  }
  return out;
}

void load_sharded_optimizer_state(torch::optim::Optimizer& optimizer, const ParameterShards& shards,
                                  const NamedParameters& parameters, const NamedTensors& state) {
  NamedTensors left = state;
  NamedTensors of_pieces;
  for (const auto& field : remembered_tensors(optimizer)) {
    std::vector<at::Tensor> whole;
    for (const auto& [name, parameter] : parameters) {
      whole.push_back(find(state, name, field));
      require_fits(fmt::format("{}.{}", name, field), whole.back(), parameter);
      left.erase(fmt::format("{}.{}", name, field));
    }
    const auto parts = shards.parts(whole);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].defined()) of_pieces.emplace(fmt::format("{}.{}", i, field), parts[i]);
    }
  }
  for (std::size_t i = 0; i < shards.pieces().size(); ++i) {
    const auto step = find(state, parameters[shards.owner(i)].first, kRememberedStep);
    if (step.defined()) of_pieces.emplace(fmt::format("{}.{}", i, kRememberedStep), step);
  }
  for (const auto& [name, parameter] : parameters) left.erase(fmt::format("{}.{}", name, kRememberedStep));
  // What no parameter has is refused there, by name.
  of_pieces.merge(left);
  load_optimizer_state(optimizer, named_by_number(shards.pieces()), of_pieces);
}

}  // namespace lockstep::train
