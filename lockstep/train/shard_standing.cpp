#include <lockstep/base/error.h>
#include <lockstep/train/shard_standing.h>

#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

namespace lockstep::train {
namespace {

nlohmann::json json_of(const PartHashes& parts) { return {{"own", parts.own}, {"copy", parts.copy}}; }

PartHashes parts_in(const nlohmann::json& object) { return {object.at("own"), object.at("copy")}; }

/// What `standing` has after `step`; nullptr for nothing.
const PartHashes* parts_after(const ShardStanding& standing, std::int64_t step) {
  if (!standing.has_state) return nullptr;
  if (standing.step == step) return &standing.parts;
  return standing.step + 1 == step && standing.next ? &*standing.next : nullptr;
}

std::optional<int> find_furthest(const std::vector<ShardStanding>& standings) {
  const auto progress = [](const ShardStanding& one) { return std::tuple(one.step, one.epoch, one.evaluations); };
  std::optional<int> furthest;
  for (std::size_t rank = 0; rank < standings.size(); ++rank) {
    if (!standings[rank].has_state) continue;
    if (furthest && progress(standings[rank]) <= progress(standings[static_cast<std::size_t>(*furthest)])) continue;
    furthest = static_cast<int>(rank);
  }
  return furthest;
}

/// Why the rest of what a rank has after `best`'s step cannot be trusted; empty if it can.
std::string find_difference(const std::vector<ShardStanding>& standings, std::size_t rank, int furthest) {
  const auto& best = standings[static_cast<std::size_t>(furthest)];
  const auto& one = standings[rank];
  if (one.has_state && one.step == best.step && one.shared != best.shared) {
    return fmt::format(
        "after step {} the state of rank {} (SHA-256 {:.12}) differs from that of rank {} ({:.12}); no state in "
        "memory can be trusted",
        best.step, rank, one.shared, furthest, best.shared);
  }
  const auto next = (rank + 1) % standings.size();
  const auto* own = parts_after(one, best.step);
  const auto* copy = parts_after(standings[next], best.step);
  if (own == nullptr || copy == nullptr || own->own == copy->copy) return {};
  return fmt::format(
      "after step {} rank {}'s part of the state (SHA-256 {:.12}) differs from its copy on rank {} ({:.12}); no state "
      "in memory can be trusted",
      best.step, rank, own->own, next, copy->copy);
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
  nlohmann::json object{{"has_state", standing.has_state}, {"step", standing.step},
                        {"epoch", standing.epoch},         {"evaluations", standing.evaluations},
                        {"shared", standing.shared},       {"parts", json_of(standing.parts)}};
  if (standing.next) object["next"] = json_of(*standing.next);
  return object.dump();
}

ShardStanding parse_shard_standing(std::string_view json) {
  try {
    const auto object = nlohmann::json::parse(json);
    ShardStanding standing{object.at("has_state"),   object.at("step"),   object.at("epoch"),
                           object.at("evaluations"), object.at("shared"), parts_in(object.at("parts"))};
    if (object.contains("next")) standing.next = parts_in(object.at("next"));
    return standing;
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::data, "recovery", "what a rank says of its part of the state is not understood: {}", error.what());
  }
}

ShardChoice choose_shards(const std::vector<ShardStanding>& standings) {
  const auto furthest = find_furthest(standings);
  if (!furthest) return {};
  const auto step = standings[static_cast<std::size_t>(*furthest)].step;
  ShardChoice choice{furthest, {}, fmt::format("going on after step {} with what the ranks have in memory", step)};
  for (std::size_t rank = 0; rank < standings.size(); ++rank) {
    if (auto difference = find_difference(standings, rank, *furthest); !difference.empty()) {
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
