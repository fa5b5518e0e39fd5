// SHA-256 of named tensors, the prefixes of parts, and a broadcast: a JSON outline first, then each tensor.
#include <lockstep/base/crypto.h>
#include <lockstep/base/json.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/texts.h>
#include <lockstep/state/tensors.h>

#include <fmt/ranges.h>
#include <torch/torch.h>
#include <nlohmann/json.hpp>

#include <span>

namespace lockstep::state {
namespace {

/// The names, dtypes and sizes of the tensors that follow.
std::string outline_text(const NamedTensors& tensors) {
  auto outline = nlohmann::json::array();
  for (const auto& [name, tensor] : tensors) {
    outline.push_back({name, static_cast<int>(tensor.scalar_type()), tensor.sizes().vec()});
  }
  return outline.dump();
}

NamedTensors uninitialized(const nlohmann::json& outline) {
  NamedTensors tensors;
  for (const auto& tensor : outline) {
    const auto shape = tensor[2].get<std::vector<std::int64_t>>();
    tensors.emplace(tensor[0], torch::empty(shape, static_cast<at::ScalarType>(integer_of<int>(tensor[1]))));
  }
  return tensors;
}

}  // namespace

std::string dtype_and_sizes(const at::Tensor& tensor) {
  return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
}

void add_to_hash(Sha256& hash, const std::string& name, const at::Tensor& tensor) {
  hash.update(fmt::format("{} {} [{}]\n", name, c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ",")));
  const auto values = tensor.detach().cpu().contiguous();
  hash.update(std::as_bytes(std::span(static_cast<const char*>(values.data_ptr()), values.nbytes())));
}

std::string sha256_of(const NamedTensors& tensors) {
  Sha256 hash;
  for (const auto& [name, tensor] : tensors) add_to_hash(hash, name, tensor);
  return hash.hex();
}

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

void broadcast_tensors(NamedTensors& tensors, const Group& group, int root) {
  if (group.size() == 1) return;
  const bool is_root = group.rank() == root;
  const auto outline = nlohmann::json::parse(share_text(is_root ? outline_text(tensors) : "", group, root));
  if (!is_root) tensors = uninitialized(outline);
  for (auto& [name, tensor] : tensors) broadcast(tensor, group, root);
}

}  // namespace lockstep::state
