// What the ranks of a new generation have in memory, and whose of it counts. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

/// What one rank alone had come to.
struct Claim {
  std::int64_t step = 0;
  int rank = 0;
  std::string sha256;

  bool operator==(const Claim&) const = default;
};

/// What one rank brings along.
struct Standing {
  bool has_state = false;  ///< false: a new process, or one that cannot go on from memory
  std::int64_t step = 0;   ///< that it has completed; this and the rest, but the claim, only with a state
  std::int64_t epoch = 0;  ///< finished
  std::int64_t evaluations = 0;
  std::string sha256;            ///< of its tensors: parameters, buffers, what the optimizer remembers
  std::optional<Claim> claim{};  ///< that it has heard of, and that was not compared with all ranks' yet

  bool operator==(const Standing&) const = default;
};

/// As one JSON object, and back. Error(data) for anything else.
std::string to_json(const Standing& standing);
Standing parse_standing(std::string_view json);

/// The rank that has come furthest; nullopt when nobody has a state.
std::optional<int> find_furthest(const std::vector<Standing>& standings);

/// A step needs all ranks: they are at most one step apart, and those that are at the same step hold the same. Where
/// that is not so, one of them is wrong, and nobody knows which. In words for people; empty where it is so.
std::string find_contradiction(const std::vector<Standing>& standings);

/// How such words end.
inline constexpr std::string_view kNothingToTrust = "no state in memory can be trusted";

struct StateChoice {
  std::optional<int> rank{};     ///< whose state all take; nullopt: the newest checkpoint, or the beginning
  std::string reason;            ///< for people; empty where nobody had anything
  std::optional<Claim> claim{};  ///< of whoever is a step further: what the next step must come to
};

/// The state of the rank that has come furthest: a step that it has completed it has completed with the gradients of
/// all, so those that were interrupted in it can take its result. But one that is a step further than all others can be
/// compared with nobody: all take the state before, make that step again, and compare. What it had come to is not
/// forgotten while that has not come to an end, whoever is lost meanwhile. The checkpoint, where find_contradiction
/// finds one, or a step came out otherwise than claimed.
StateChoice choose_state(const std::vector<Standing>& standings);

}  // namespace lockstep::train
