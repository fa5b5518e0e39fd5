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

/// "step 12: ranks 0, 2 differ from rank 3"; empty when those who are at one step hold the same.
std::string find_difference(const std::vector<Standing>& standings) {
  std::map<std::int64_t, int> first_at;
  for (int rank = 0; rank < static_cast<int>(standings.size()); ++rank) {
    const Standing& one = standings[static_cast<std::size_t>(rank)];
    if (!one.has_state) continue;
    const auto [first, is_first] = first_at.emplace(one.step, rank);
    const Standing& other = standings[static_cast<std::size_t>(first->second)];
    if (one.sha256 == other.sha256) continue;
    return fmt::format(
        "after step {} the state of rank {} (SHA-256 {:.12}) differs from that of rank {} ({:.12}); no state in "
        "memory can be trusted",
        one.step, rank, one.sha256, first->second, other.sha256);
  }
  return {};
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
  return nlohmann::json{{"has_state", standing.has_state},
                        {"step", standing.step},
                        {"epoch", standing.epoch},
                        {"evaluations", standing.evaluations},
                        {"sha256", standing.sha256}}
      .dump();
}

Standing parse_standing(std::string_view json) {
  try {
    const auto object = nlohmann::json::parse(json);
    return {object.at("has_state"), object.at("step"), object.at("epoch"), object.at("evaluations"),
            object.at("sha256")};
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::data, "recovery", "what a rank says of its state is not understood: {}", error.what());
  }
}

StateChoice choose_state(const std::vector<Standing>& standings) {
  std::optional<int> furthest;
  std::int64_t least = 0;
  for (int rank = 0; rank < static_cast<int>(standings.size()); ++rank) {
    const Standing& one = standings[static_cast<std::size_t>(rank)];
    if (!one.has_state) continue;
    least = furthest ? std::min(least, one.step) : one.step;
    const auto* best = furthest ? &standings[static_cast<std::size_t>(*furthest)] : nullptr;
    if (best == nullptr || progress_of(one) > progress_of(*best)) furthest = rank;
  }
  if (!furthest) return {};
  const Standing& best = standings[static_cast<std::size_t>(*furthest)];
  if (best.step - least > 1) {
    return {
        std::nullopt,
        fmt::format(
            "ranks are at steps {} to {}, which cannot be: a step needs all of them; no state in memory can be trusted",
            least, best.step)};
  }
  if (auto difference = find_difference(standings); !difference.empty()) return {std::nullopt, std::move(difference)};
  const auto words = [&](int rank) {
    return fmt::format("going on after step {} with what rank {} has in memory",
                       standings[static_cast<std::size_t>(rank)].step, rank);
  };
  const auto before = alone_ahead(standings, best);
  if (!before) return {furthest, words(*furthest)};
  return {before,
          fmt::format("{}: rank {} alone has completed step {}, and is compared with those that make it again",
                      words(*before), *furthest, best.step),
          Claim{best.step, *furthest, best.sha256}};
}

}  // namespace lockstep::train
