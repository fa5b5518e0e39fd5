// The choice of a source for each rank's part: the rank itself, else the copy of the next rank, with hashes compared.
#include <lockstep/base/error.h>
#include <lockstep/train/checkpoint/shard_recovery_state.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace lockstep::train {
namespace {

nlohmann::json json_of(const PartHashes& parts) { return {{"own", parts.own}, {"copy", parts.copy}}; }

PartHashes parts_in(const nlohmann::json& object) { return {object.at("own"), object.at("copy")}; }

/// The part of `recovery_state` after `step`; nullptr if there is none.
const PartHashes* parts_after(const ShardRecoveryState& recovery_state, std::int64_t step) {
  if (!recovery_state.shared.has_state) return nullptr;
  if (recovery_state.shared.step == step) return &recovery_state.parts;
  return recovery_state.shared.step + 1 == step && recovery_state.next ? &*recovery_state.next : nullptr;
}

/// The reason why neither the part of `rank` nor its copy can be trusted, after `last` or the previous step; empty if
/// they can.
std::string find_difference(const std::vector<ShardRecoveryState>& recovery_states, std::size_t rank,
                            std::int64_t last) {
  const auto next = (rank + 1) % recovery_states.size();
  for (const auto step : {last, last - 1}) {
    const auto* own = parts_after(recovery_states[rank], step);
    const auto* copy = parts_after(recovery_states[next], step);
    if (own == nullptr || copy == nullptr || own->own == copy->copy) continue;
    return fmt::format(
        "after step {} rank {}'s part of the state (SHA-256 {:.12}) differs from its copy on rank {} ({:.12}); {}",
        step, rank, own->own, next, copy->copy, kNothingToTrust);
  }
  return {};
}

/// The rank that has the part of `rank` after `step`: `rank` itself or the next rank.
std::optional<ShardSource> find_source(const std::vector<ShardRecoveryState>& recovery_states, std::size_t rank,
                                       std::int64_t step) {
  const auto next = (rank + 1) % recovery_states.size();
  if (parts_after(recovery_states[rank], step) != nullptr) return ShardSource{static_cast<int>(rank), false};
  if (parts_after(recovery_states[next], step) != nullptr) return ShardSource{static_cast<int>(next), true};
  return std::nullopt;
}

}  // namespace

std::string to_json(const ShardRecoveryState& recovery_state) {
  nlohmann::json object{{"shared", to_json(recovery_state.shared)}, {"parts", json_of(recovery_state.parts)}};
  if (recovery_state.next) object["next"] = json_of(*recovery_state.next);
  return object.dump();
}

ShardRecoveryState parse_shard_recovery_state(std::string_view json) {
  try {
    const auto object = nlohmann::json::parse(json);
    ShardRecoveryState recovery_state{parse_recovery_state(object.at("shared").get<std::string>()),
                                      parts_in(object.at("parts"))};
    if (object.contains("next")) recovery_state.next = parts_in(object.at("next"));
    return recovery_state;
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::data, "recovery", "a rank's report of its part of the state cannot be read: {}", error.what());
  }
}

ShardChoice choose_shards(const std::vector<ShardRecoveryState>& recovery_states) {
  std::vector<RecoveryState> shared;
  for (const ShardRecoveryState& one : recovery_states) shared.push_back(one.shared);
  const auto furthest = find_furthest(shared);
  if (!furthest) return {};
  if (auto words = find_contradiction(shared); !words.empty()) return {std::nullopt, {}, std::move(words)};
  const auto step = shared[static_cast<std::size_t>(*furthest)].step;
  ShardChoice choice{furthest, {}, fmt::format("going on after step {} with what the ranks have in memory", step)};
  for (std::size_t rank = 0; rank < recovery_states.size(); ++rank) {
    if (auto difference = find_difference(recovery_states, rank, step); !difference.empty()) {
      return {std::nullopt, {}, std::move(difference)};
    }
    const auto source = find_source(recovery_states, rank, step);
    if (!source) {
      return {std::nullopt,
              {},
              fmt::format("rank {}'s part of the state after step {} is lost, with its copy on rank {}", rank, step,
                          (rank + 1) % recovery_states.size())};
    }
    if (source->is_copy) choice.reason += fmt::format("; rank {} has kept rank {}'s part", source->rank, rank);
    choice.sources.push_back(*source);
  }
  return choice;
}

}  // namespace lockstep::train
