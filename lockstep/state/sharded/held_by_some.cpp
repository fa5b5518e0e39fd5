// A saved state from whole tensors that only some ranks hold, whose outlines are gathered as JSON.
#include <lockstep/base/error.h>
#include <lockstep/comm/texts.h>
#include <lockstep/state/safetensors_stream.h>
#include <lockstep/state/sharded/sharded_save.h>

#include <torch/torch.h>
#include <nlohmann/json.hpp>

#include <utility>

namespace lockstep::state {
namespace {

/// name -> [dtype, shape]
std::string outline_of(const NamedTensors& tensors) {
  auto outline = nlohmann::json::object();
  for (const auto& [name, tensor] : tensors) outline[name] = {safetensors_dtype(name, tensor), tensor.sizes().vec()};
  return outline.dump();
}

}  // namespace

SavedState held_by_some(NamedTensors own, const Group& group) {
  SavedState state{.group = group, .mesh = {.sizes = {group.size()}, .names = {"data"}}, .tensors = {}, .in_parts = {}};
  const auto outlines = gather_texts(outline_of(own), group);
  for (std::size_t rank = 0; rank < outlines.size(); ++rank) {
    const auto outline = nlohmann::json::parse(outlines[rank]);
    for (const auto& [name, form] : outline.items()) {
      const auto dtype = form.at(0).get<std::string>();
      const auto shape = form.at(1).get<BoxSizes>();
      const auto [place, is_new] =
          state.in_parts.try_emplace(name, TensorInParts{.dtype = dtype, .shape = shape, .holders = {}, .own = {}});
      if (!is_new && (place->second.dtype != dtype || place->second.shape != shape)) {
        fail(ErrorKind::mismatch, "checkpoint", "{} of rank {} is of another shape or dtype than that of a rank before",
             name, rank);
      }
      place->second.holders[whole_box(shape)].push_back(static_cast<int>(rank));
    }
  }
  for (auto& [name, tensor] : own) {
    state.in_parts.at(name).own.push_back({whole_box(tensor.sizes().vec()), std::move(tensor)});
  }
  return state;
}

}  // namespace lockstep::state
