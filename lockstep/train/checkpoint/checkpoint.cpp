// Name prefixes of a checkpoint's parts, and its broadcast from a root rank: a JSON outline first, then each tensor.
#include <lockstep/base/json_integer.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/texts.h>
#include <lockstep/train/checkpoint/checkpoint.h>

#include <fmt/format.h>
#include <torch/torch.h>
#include <nlohmann/json.hpp>

namespace lockstep::train {
namespace {

// The state, and the outline of the tensors that follow.
std::string contents_of(const std::optional<Checkpoint>& checkpoint) {
  if (!checkpoint) return "null";
  auto tensors = nlohmann::json::array();
  for (const auto& [name, tensor] : checkpoint->tensors) {
    tensors.push_back({name, static_cast<int>(tensor.scalar_type()), tensor.sizes().vec()});
  }
  return nlohmann::json{{"state", to_json(checkpoint->state)}, {"tensors", std::move(tensors)}}.dump();
}

Checkpoint make_room(const nlohmann::json& contents) {
  Checkpoint checkpoint{parse_run_state(contents["state"].get<std::string>()), {}};
  for (const auto& tensor : contents["tensors"]) {
    const auto shape = tensor[2].get<std::vector<std::int64_t>>();
    checkpoint.tensors.emplace(tensor[0], torch::empty(shape, static_cast<at::ScalarType>(integer_of<int>(tensor[1]))));
  }
  return checkpoint;
}

}  // namespace

NamedTensors part_of(const NamedTensors& tensors, std::string_view part) {
  const auto prefix = fmt::format("{}.", part);
  NamedTensors out;
  for (auto item = tensors.lower_bound(prefix); item != tensors.end() && item->first.starts_with(prefix); ++item) {
    out.emplace(item->first.substr(prefix.size()), item->second);
  }
  return out;
}

void add_part(NamedTensors& tensors, std::string_view part, const NamedTensors& content) {
  for (const auto& [name, tensor] : content) tensors.insert_or_assign(fmt::format("{}.{}", part, name), tensor);
}

std::optional<Checkpoint> broadcast_state(std::optional<Checkpoint> own, const Group& group, int root) {
  if (group.size() == 1) return own;
  const auto contents = nlohmann::json::parse(share_text(contents_of(own), group, root));
  if (contents.is_null()) return std::nullopt;
  auto checkpoint = group.rank() == root ? std::move(*own) : make_room(contents);
  for (auto& [name, tensor] : checkpoint.tensors) broadcast(tensor, group, root);
  return checkpoint;
}

}  // namespace lockstep::train
