#include <lockstep/base/error.h>
#include <lockstep/train/standing.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

namespace lockstep::train {
namespace {

auto progress_of(const Standing& standing) { return std::tuple(standing.step, standing.epoch, standing.evaluations); }

/// "after step 12 the state of rank 2 ... differs from that of rank 0 ..."; empty when those who are at one step hold
/// the same.
std::string find_difference(const std::vector<Standing>& standings) {
  std::map<std::int64_t, int> first_at;
  for (int rank = 0; rank < static_cast<int>(standings.size()); ++rank) {
    const Standing& one = standings[static_cast<std::size_t>(rank)];
    if (!one.has_state) continue;
    const auto [first, is_first] = first_at.emplace(one.step, rank);
    const Standing& other = standings[static_cast<std::size_t>(first->second)];
    if (one.sha256 == other.sha256) continue;
    return fmt::format("after step {} the state of rank {} (SHA-256 {:.12}) differs from that of rank {} ({:.12}); {}",
                       one.step, rank, one.sha256, first->second, other.sha256, kNothingToTrust);
  }
  return {};
}

/// Of a claim and those who have made the step that it is of, or have heard another; empty when there is none.
std::string find_broken_claim(const std::vector<Standing>& standings) {
  for (const Standing& heard : standings) {
    if (!heard.claim) continue;
    const Claim& claim = *heard.claim;
    const auto broken = [&](int rank, const std::string& sha256) {
      return fmt::format(
          "made again, step {} did not come out as rank {} had it (SHA-256 {:.12}; on rank {} {:.12}): one was wrong, "
          "or machines compute differently; {}",
          claim.step, claim.rank, claim.sha256, rank, sha256, kNothingToTrust);
    };
    for (int rank = 0; rank < static_cast<int>(standings.size()); ++rank) {
      const Standing& one = standings[static_cast<std::size_t>(rank)];
      if (one.has_state && one.step == claim.step && one.sha256 != claim.sha256) return broken(rank, one.sha256);
      const auto& other = one.claim;
      if (other && other->step == claim.step && other->sha256 != claim.sha256)
        return broken(other->rank, other->sha256);
    }
  }
  return {};
}

/// What some rank has heard of the step after `step`.
std::optional<Claim> claim_after(const std::vector<Standing>& standings, std::int64_t step) {
  for (const Standing& one : standings) {
    if (one.claim && one.claim->step == step + 1) return one.claim;
  }
  return std::nullopt;
}

/// Of those a step behind `best` the furthest, if nobody is where that is and some are.
std::optional<int> alone_ahead(const std::vector<Standing>& standings, const Standing& best) {
  std::optional<int> before;
  for (int rank = 0; rank < static_cast<int>(standings.size()); ++rank) {
    const Standing& one = standings[static_cast<std::size_t>(rank)];
    if (!one.has_state || &one == &best) continue;
    if (one.step == best.step) return std::nullopt;
    if (!before || progress_of(one) > progress_of(standings[static_cast<std::size_t>(*before)])) before = rank;
  }
  return before;
}

}  // namespace

std::string to_json(const Standing& standing) {
  nlohmann::json object{{"has_state", standing.has_state},
                        {"step", standing.step},
                        {"epoch", standing.epoch},
                        {"evaluations", standing.evaluations},
                        {"sha256", standing.sha256}};
  if (const auto& claim = standing.claim) {
    object["claim"] = {{"step", claim->step}, {"rank", claim->rank}, {"sha256", claim->sha256}};
  }
  return object.dump();
}

Standing parse_standing(std::string_view json) {
  try {
    const auto object = nlohmann::json::parse(json);
    Standing standing{object.at("has_state"), object.at("step"), object.at("epoch"), object.at("evaluations"),
                      object.at("sha256")};
    if (object.contains("claim")) {
      const auto& claim = object.at("claim");
      standing.claim = Claim{claim.at("step"), claim.at("rank"), claim.at("sha256")};
    }
    return standing;
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::data, "recovery", "what a rank says of its state is not understood: {}", error.what());
  }
}

std::optional<int> find_furthest(const std::vector<Standing>& standings) {
  std::optional<int> furthest;
  for (int rank = 0; rank < static_cast<int>(standings.size()); ++rank) {
    const Standing& one = standings[static_cast<std::size_t>(rank)];
    if (!one.has_state) continue;
    const bool first = !furthest;
    if (first || progress_of(one) > progress_of(standings[static_cast<std::size_t>(*furthest)])) furthest = rank;
  }
  return furthest;
}

std::string find_contradiction(const std::vector<Standing>& standings) {
  const auto furthest = find_furthest(standings);
  if (!furthest) return {};
  const auto most = standings[static_cast<std::size_t>(*furthest)].step;
  auto least = most;
  for (const Standing& one : standings) {
    if (one.has_state) least = std::min(least, one.step);
  }
  if (most - least <= 1) return find_difference(standings);
  return fmt::format("ranks are at steps {} to {}, which cannot be: a step needs all of them; {}", least, most,
                     kNothingToTrust);
}

StateChoice choose_state(const std::vector<Standing>& standings) {
  const auto furthest = find_furthest(standings);
  if (!furthest) return {};
  const Standing& best = standings[static_cast<std::size_t>(*furthest)];
  if (auto words = find_contradiction(standings); !words.empty()) return {std::nullopt, std::move(words)};
  if (auto words = find_broken_claim(standings); !words.empty()) return {std::nullopt, std::move(words)};
  const auto words = [&](int rank) {
    return fmt::format("going on after step {} with what rank {} has in memory",
                       standings[static_cast<std::size_t>(rank)].step, rank);
  };
  const auto before = alone_ahead(standings, best);
  if (!before) return {furthest, words(*furthest), claim_after(standings, best.step)};
  return {before,
          fmt::format("{}: rank {} alone has completed step {}, and is compared with those that make it again",
                      words(*before), *furthest, best.step),
          Claim{best.step, *furthest, best.sha256}};
}

}  // namespace lockstep::train
