// The rules by which ranks choose a state: the furthest step, equal hashes at each step; of a state in parts each part
// from its rank, else from the copy on the next rank.
#include <lockstep/base/error.h>
#include <lockstep/state/recovery_choice.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

namespace lockstep::state {
namespace {

/// The end of the text of a contradiction.
constexpr std::string_view kNothingToTrust = "no state in memory can be trusted";

auto progress_of(const RecoveryState& recovery_state) {
  return std::tuple(recovery_state.step, recovery_state.epoch, recovery_state.evaluations);
}

/// The most advanced rank; nullopt when no rank has a state.
std::optional<int> find_furthest(const std::vector<RecoveryState>& recovery_states) {
  std::optional<int> furthest;
  for (int rank = 0; rank < static_cast<int>(recovery_states.size()); ++rank) {
    const RecoveryState& one = recovery_states[static_cast<std::size_t>(rank)];
    if (!one.has_state) continue;
    const bool first = !furthest;
    if (first || progress_of(one) > progress_of(recovery_states[static_cast<std::size_t>(*furthest)])) furthest = rank;
  }
  return furthest;
}

/// "after step 12 the state of rank 2 ... differs from that of rank 0 ..."; empty when ranks at the same step have
/// equal states.
std::string find_difference(const std::vector<RecoveryState>& recovery_states) {
  std::map<std::int64_t, int> first_at;
  for (int rank = 0; rank < static_cast<int>(recovery_states.size()); ++rank) {
    const RecoveryState& one = recovery_states[static_cast<std::size_t>(rank)];
    if (!one.has_state) continue;
    const auto [first, is_first] = first_at.emplace(one.step, rank);
    const RecoveryState& other = recovery_states[static_cast<std::size_t>(first->second)];
    if (one.sha256 == other.sha256) continue;
    return fmt::format("after step {} the state of rank {} (SHA-256 {:.12}) differs from that of rank {} ({:.12}); {}",
                       one.step, rank, one.sha256, first->second, other.sha256, kNothingToTrust);
  }
  return {};
}

/// A contradiction between the states, in words; empty where there is none.
std::string find_contradiction(const std::vector<RecoveryState>& recovery_states) {
  const auto furthest = find_furthest(recovery_states);
  if (!furthest) return {};
  const auto most = recovery_states[static_cast<std::size_t>(*furthest)].step;
  auto least = most;
  for (const RecoveryState& one : recovery_states) {
    if (one.has_state) least = std::min(least, one.step);
  }
  if (most - least <= 1) return find_difference(recovery_states);
  return fmt::format("ranks are at steps {} to {}, which cannot be: a step needs all of them; {}", least, most,
                     kNothingToTrust);
}

// ---- whole states

/// The most advanced rank one step behind `best`, if no other rank is at the step of `best`, and there is such a rank.
std::optional<int> alone_ahead(const std::vector<RecoveryState>& recovery_states, const RecoveryState& best) {
  std::optional<int> before;
  for (int rank = 0; rank < static_cast<int>(recovery_states.size()); ++rank) {
    const RecoveryState& one = recovery_states[static_cast<std::size_t>(rank)];
    if (!one.has_state || &one == &best) continue;
    if (one.step == best.step) return std::nullopt;
    if (!before || progress_of(one) > progress_of(recovery_states[static_cast<std::size_t>(*before)])) before = rank;
  }
  return before;
}

StateChoice choose_whole(const std::vector<RecoveryState>& recovery_states, int furthest) {
  const RecoveryState& best = recovery_states[static_cast<std::size_t>(furthest)];
  const auto words = [&](int rank) {
    return fmt::format("going on after step {} with what rank {} has in memory",
                       recovery_states[static_cast<std::size_t>(rank)].step, rank);
  };
  const auto before = alone_ahead(recovery_states, best);
  if (!before) return {furthest, {}, words(furthest)};
  return {
      before,
      {},
      fmt::format("{}: rank {} alone has completed step {}, which is repeated", words(*before), furthest, best.step)};
}

// ---- states in parts

/// The part of `recovery_state` after `step`; nullptr if there is none.
const PartHashes* parts_after(const RecoveryState& recovery_state, std::int64_t step) {
  if (!recovery_state.has_state || !recovery_state.parts) return nullptr;
  if (recovery_state.step == step) return &*recovery_state.parts;
  return recovery_state.step + 1 == step && recovery_state.next ? &*recovery_state.next : nullptr;
}

/// The reason why neither the part of `rank` nor its copy can be trusted, after `last` or the previous step; empty if
/// they can.
std::string find_difference_of_parts(const std::vector<RecoveryState>& recovery_states, std::size_t rank,
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
std::optional<PartSource> find_source(const std::vector<RecoveryState>& recovery_states, std::size_t rank,
                                      std::int64_t step) {
  const auto next = (rank + 1) % recovery_states.size();
  if (parts_after(recovery_states[rank], step) != nullptr) return PartSource{static_cast<int>(rank), false};
  if (parts_after(recovery_states[next], step) != nullptr) return PartSource{static_cast<int>(next), true};
  return std::nullopt;
}

StateChoice choose_parts(const std::vector<RecoveryState>& recovery_states, int furthest) {
  const auto step = recovery_states[static_cast<std::size_t>(furthest)].step;
  StateChoice choice{furthest, {}, fmt::format("going on after step {} with what the ranks have in memory", step)};
  for (std::size_t rank = 0; rank < recovery_states.size(); ++rank) {
    if (auto difference = find_difference_of_parts(recovery_states, rank, step); !difference.empty()) {
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

nlohmann::json json_of(const PartHashes& parts) { return {{"own", parts.own}, {"copy", parts.copy}}; }

PartHashes parts_in(const nlohmann::json& object) { return {object.at("own"), object.at("copy")}; }

}  // namespace

std::string to_json(const RecoveryState& recovery_state) {
  nlohmann::json object{{"has_state", recovery_state.has_state},
                        {"step", recovery_state.step},
                        {"epoch", recovery_state.epoch},
                        {"evaluations", recovery_state.evaluations},
                        {"sha256", recovery_state.sha256}};
  if (recovery_state.parts) object["parts"] = json_of(*recovery_state.parts);
  if (recovery_state.next) object["next"] = json_of(*recovery_state.next);
  return object.dump();
}

RecoveryState parse_recovery_state(std::string_view json) {
  try {
    const auto object = nlohmann::json::parse(json);
    RecoveryState recovery_state{object.at("has_state"), object.at("step"), object.at("epoch"),
                                 object.at("evaluations"), object.at("sha256")};
    if (object.contains("parts")) recovery_state.parts = parts_in(object.at("parts"));
    if (object.contains("next")) recovery_state.next = parts_in(object.at("next"));
    return recovery_state;
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::data, "recovery", "a rank's report of its state cannot be read: {}", error.what());
  }
}

StateChoice choose_state(std::vector<RecoveryState> recovery_states) {
  const auto is_whole = [](const RecoveryState& one) { return one.has_state && !one.parts; };
  const bool whole = std::ranges::any_of(recovery_states, is_whole);
  for (RecoveryState& one : recovery_states) {
    if (whole && !is_whole(one)) one = {};
  }
  const auto furthest = find_furthest(recovery_states);
  if (!furthest) return {};
  if (auto words = find_contradiction(recovery_states); !words.empty()) return {std::nullopt, {}, std::move(words)};
  return whole ? choose_whole(recovery_states, *furthest) : choose_parts(recovery_states, *furthest);
}

}  // namespace lockstep::state
