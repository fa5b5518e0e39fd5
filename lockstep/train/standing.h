// What the ranks of a new generation have in memory, and whose of it counts. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

/// What one rank brings along.
struct Standing {
  bool has_state = false;  ///< false: a new process, or one that cannot go on from memory
  std::int64_t step = 0;   ///< that it has completed; this and the rest only with a state
  std::int64_t epoch = 0;  ///< finished
  std::int64_t evaluations = 0;
  std::string sha256;  ///< of its tensors: parameters, buffers, what the optimizer remembers

  bool operator==(const Standing&) const = default;
};

/// As one JSON object, and back. Error(data) for anything else.
std::string to_json(const Standing& standing);
Standing parse_standing(std::string_view json);

/// What one rank alone had come to.
struct Claim {
  std::int64_t step = 0;
  int rank = 0;
  std::string sha256;

  bool operator==(const Claim&) const = default;
};

struct StateChoice {
  std::optional<int> rank{};     ///< whose state all take; nullopt: the newest checkpoint, or the beginning
  std::string reason;            ///< for people; empty where nobody had anything
  std::optional<Claim> claim{};  ///< of whoever is a step further: what the next step must come to
};

/// The rank that has come furthest, by ranks. A step that one rank has completed, it has completed with the gradients
/// of all: whoever was interrupted in it can take its result, and nothing is made twice. So ranks are at most one step
/// apart, and those that are at the same step hold the same; where that is not so, one of them is wrong and nobody
/// knows which, and the choice is the checkpoint. A rank that is a step further than all others can be compared with
/// nobody: all take the state before, and when they have made that step, too, they can.
StateChoice choose_state(const std::vector<Standing>& standings);

}  // namespace lockstep::train
