#include <lockstep/base/error.h>
#include <lockstep/train/shard_standing.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace lockstep::train {
namespace {

nlohmann::json json_of(const PartHashes& parts) { return {{"own", parts.own}, {"copy", parts.copy}}; }

PartHashes parts_in(const nlohmann::json& object) { return {object.at("own"), object.at("copy")}; }

/// What `standing` has after `step`; nullptr for nothing.
const PartHashes* parts_after(const ShardStanding& standing, std::int64_t step) {
  if (!standing.shared.has_state) return nullptr;
  if (standing.shared.step == step) return &standing.parts;
  return standing.shared.step + 1 == step && standing.next ? &*standing.next : nullptr;
}

/// Why the copy of `rank`'s part cannot be trusted, nor the part, after `last` or the step before; empty if they can.
std::string find_difference(const std::vector<ShardStanding>& standings, std::size_t rank, std::int64_t last) {
  const auto next = (rank + 1) % standings.size();
  for (const auto step : {last, last - 1}) {
    const auto* own = parts_after(standings[rank], step);
    const auto* copy = parts_after(standings[next], step);
    if (own == nullptr || copy == nullptr || own->own == copy->copy) continue;
    return fmt::format(
        "after step {} rank {}'s part of the state (SHA-256 {:.12}) differs from its copy on rank {} ({:.12}); {}",
        step, rank, own->own, next, copy->copy, kNothingToTrust);
  }
  return {};
}

/// Who has the part of `rank` after `step`: it or the next.
std::optional<ShardSource> find_source(const std::vector<ShardStanding>& standings, std::size_t rank,
                                       std::int64_t step) {
  const auto next = (rank + 1) % standings.size();
  if (parts_after(standings[rank], step) != nullptr) return ShardSource{static_cast<int>(rank), false};
  if (parts_after(standings[next], step) != nullptr) return ShardSource{static_cast<int>(next), true};
  return std::nullopt;
}

}  // namespace

std::string to_json(const ShardStanding& standing) {
  nlohmann::json object{{"shared", to_json(standing.shared)}, {"parts", json_of(standing.parts)}};
  if (standing.next) object["next"] = json_of(*standing.next);
  return object.dump();
}

ShardStanding parse_shard_standing(std::string_view json) {
  try {
    const auto object = nlohmann::json::parse(json);
    ShardStanding standing{parse_standing(object.at("shared").get<std::string>()), parts_in(object.at("parts"))};
    if (object.contains("next")) standing.next = parts_in(object.at("next"));
    return standing;
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::data, "recovery", "what a rank says of its part of the state is not understood: {}", error.what());
  }
}

ShardChoice choose_shards(const std::vector<ShardStanding>& standings) {
  std::vector<Standing> shared;
  for (const ShardStanding& one : standings) shared.push_back(one.shared);
  const auto furthest = find_furthest(shared);
  if (!furthest) return {};
  if (auto words = find_contradiction(shared); !words.empty()) return {std::nullopt, {}, std::move(words)};
  const auto step = shared[static_cast<std::size_t>(*furthest)].step;
  ShardChoice choice{furthest, {}, fmt::format("going on after step {} with what the ranks have in memory", step)};
  for (std::size_t rank = 0; rank < standings.size(); ++rank) {
    if (auto difference = find_difference(standings, rank, step); !difference.empty()) {
      return {std::nullopt, {}, std::move(difference)};
    }
    const auto source = find_source(standings, rank, step);
    if (!source) {
      return {std::nullopt,
              {},
              fmt::format("rank {}'s part of the state after step {} is gone, with its copy on rank {}", rank, step,
                          (rank + 1) % standings.size())};
    }
    if (source->is_copy) choice.reason += fmt::format("; rank {} has kept rank {}'s part", source->rank, rank);
    choice.sources.push_back(*source);
  }
  return choice;
}

}  // namespace lockstep::train
