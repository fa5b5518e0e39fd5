// The rules by which ranks choose a state: the furthest step, equal hashes at each step; a step that only one rank has
// completed is repeated.
#include <lockstep/base/error.h>
#include <lockstep/train/checkpoint/recovery_state.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

namespace lockstep::train {
namespace {

auto progress_of(const RecoveryState& recovery_state) {
  return std::tuple(recovery_state.step, recovery_state.epoch, recovery_state.evaluations);
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

}  // namespace

std::string to_json(const RecoveryState& recovery_state) {
  const nlohmann::json object{{"has_state", recovery_state.has_state},
                              {"step", recovery_state.step},
                              {"epoch", recovery_state.epoch},
                              {"evaluations", recovery_state.evaluations},
                              {"sha256", recovery_state.sha256}};
  return object.dump();
}

RecoveryState parse_recovery_state(std::string_view json) {
  try {
    const auto object = nlohmann::json::parse(json);
    return {object.at("has_state"), object.at("step"), object.at("epoch"), object.at("evaluations"),
            object.at("sha256")};
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::data, "recovery", "a rank's report of its state cannot be read: {}", error.what());
  }
}

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

StateChoice choose_state(const std::vector<RecoveryState>& recovery_states) {
  const auto furthest = find_furthest(recovery_states);
  if (!furthest) return {};
  const RecoveryState& best = recovery_states[static_cast<std::size_t>(*furthest)];
  if (auto words = find_contradiction(recovery_states); !words.empty()) return {std::nullopt, std::move(words)};
  const auto words = [&](int rank) {
    return fmt::format("going on after step {} with what rank {} has in memory",
                       recovery_states[static_cast<std::size_t>(rank)].step, rank);
  };
  const auto before = alone_ahead(recovery_states, best);
  if (!before) return {furthest, words(*furthest)};
  return {before, fmt::format("{}: rank {} alone has completed step {}, which is repeated", words(*before), *furthest,
                              best.step)};
}

}  // namespace lockstep::train
