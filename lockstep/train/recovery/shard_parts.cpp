// Conversions of optimizer shards: stretches of memory to boxes of parameters, reads from a source, hashes, and
// assembly of the parts of all ranks into whole tensors.
#include <lockstep/base/error.h>
#include <lockstep/base/parse.h>
#include <lockstep/mirrored/flat_memory.h>
#include <lockstep/train/checkpoint/checkpoint.h>
#include <lockstep/train/recovery/buffer_ring.h>
#include <lockstep/train/recovery/shard_parts.h>

#include <fmt/format.h>
#include <torch/torch.h>

namespace lockstep::train {
namespace {

constexpr std::string_view kParameter = "parameter";

at::Tensor& room_for(NamedTensors& whole, const std::string& name, const ShardLayout::Parameter& like,
                     at::ScalarType dtype) {
  const auto found = whole.find(name);
  if (found != whole.end()) return found->second;
  return whole.emplace(name, torch::empty_strided(like.sizes, like.strides, dtype)).first->second;
}

/// "12.momentum_buffer" belongs to piece 12.
std::pair<std::size_t, std::string> split_name(const std::string& name) {
  const auto dot = name.find('.');
  const auto piece = parse_integer(name.substr(0, dot));
  if (dot == std::string::npos || !piece) fail(ErrorKind::data, "recovery", "no part of a state has a {}", name);
  return {static_cast<std::size_t>(*piece), name.substr(dot + 1)};
}

/// The hash does not cover the buffers: when a rank is lost during their broadcast, some ranks may already have rank
/// 0's buffers, and others not.
std::string hash_of(const NamedTensors& part) {
  auto compared = part;
  compared.erase(kOwnBuffers);
  return sha256_of(compared);
}

PartHashes hashes_of(const Shards& shards) { return {hash_of(shards.own), hash_of(shards.copy)}; }

}  // namespace

ShardLayout layout_of(const ParameterShards& shards, const NamedParameters& parameters) {
  ShardLayout layout;
  for (const auto& [name, parameter] : parameters) {
    layout.parameters.push_back({name, parameter.sizes().vec(), parameter.strides().vec(), parameter.scalar_type()});
  }
  for (int rank = 0; rank < shards.group().size(); ++rank) layout.stretches.push_back(shards.stretches_of(rank));
  return layout;
}

NamedTensors shard_state(const std::vector<at::Tensor>& pieces, const torch::optim::Optimizer& optimizer) {
  const auto named = named_by_number(pieces);
  auto state = optimizer_state(optimizer, named);
  for (const auto& [name, piece] : named) state.emplace(fmt::format("{}.{}", name, kParameter), piece.detach());
  return state;
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

NamedTensors assemble(const ShardLayout& layout, const std::vector<NamedTensors>& by_rank) {
  const torch::NoGradGuard no_grad;
  NamedTensors whole;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    for (const auto& [name, tensor] : by_rank[rank]) {
      if (name == kOwnBuffers) {
        whole.emplace(buffers_key(static_cast<int>(rank)), tensor);
        continue;
      }
      const auto [piece, field] = split_name(name);
      const auto& stretch = layout.stretches.at(rank).at(piece);
      const auto& parameter = layout.parameters.at(stretch.parameter);
      if (field == kParameter) {
        auto& all = room_for(whole, fmt::format("model.{}", parameter.name), parameter, parameter.dtype);
        mirrored::stretch_of(all, stretch.begin, stretch.elements).copy_(tensor);
        continue;
      }
      const auto key = fmt::format("optimizer.{}.{}", parameter.name, field);
      if (field == kRememberedStep) {
        whole.insert_or_assign(key, tensor);
        continue;
      }
      auto& all = room_for(whole, key, parameter, tensor.scalar_type());
      mirrored::stretch_of(all, stretch.begin, stretch.elements).copy_(tensor);
    }
  }
  return whole;
}

int rank_before(const Group& group) { return (group.rank() + group.size() - 1) % group.size(); }

RecoveryState recovery_state_of(const RunState& state, const NamedTensors& tensors) {
  RecoveryState recovery_state;
  recovery_state.has_state = true;
  recovery_state.step = state.step;
  recovery_state.epoch = state.epoch;
  recovery_state.evaluations = static_cast<std::int64_t>(state.evaluations.size());
  recovery_state.sha256 = sha256_of(tensors);
  return recovery_state;
}

ShardRecoveryState recovery_state_of(const std::optional<KeptParts>& kept) {
  if (!kept) return {};
  ShardRecoveryState recovery_state;
  recovery_state.shared = recovery_state_of(kept->state, kept->shared);
  recovery_state.parts = hashes_of(kept->parts.shards);
  if (kept->parts.next) recovery_state.next = hashes_of(*kept->parts.next);
  return recovery_state;
}

const NamedTensors& part_from(const KeptParts& kept, const ShardSource& source, std::int64_t step) {
  const auto& shards = kept.state.step == step ? kept.parts.shards : kept.parts.next.value();
  return source.is_copy ? shards.copy : shards.own;
}

}  // namespace lockstep::train
