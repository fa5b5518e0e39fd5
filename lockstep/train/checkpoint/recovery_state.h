// The choice of the state to continue from, among those that the ranks of a new generation have in memory. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

/// The summary of the state that one rank has in memory.
struct RecoveryState {
  bool has_state = false;  ///< false: a new process, or one that cannot continue from memory
  std::int64_t step = 0;   ///< completed steps; this and the rest are valid only with a state
  std::int64_t epoch = 0;  ///< finished
  std::int64_t evaluations = 0;
  std::string sha256;  ///< of its tensors: parameters, buffers, optimizer state

  bool operator==(const RecoveryState&) const = default;
};

/// Conversion to one JSON object and from it. Error(data) for any other text.
std::string to_json(const RecoveryState& recovery_state);
RecoveryState parse_recovery_state(std::string_view json);

/// The most advanced rank; nullopt when no rank has a state.
std::optional<int> find_furthest(const std::vector<RecoveryState>& recovery_states);

/// A contradiction between the states, in words; empty where there is none. A step needs all ranks: they are at most
/// one step apart, and ranks at the same step have equal states. Else one state is wrong, and it is unknown which one.
std::string find_contradiction(const std::vector<RecoveryState>& recovery_states);

/// The end of such an error text.
inline constexpr std::string_view kNothingToTrust = "no state in memory can be trusted";

struct StateChoice {
  std::optional<int> rank{};  ///< the rank whose state all ranks take; nullopt: the newest checkpoint, or the beginning
  std::string reason;         ///< for users; empty if no rank had a state
};

/// Chooses the state of the most advanced rank: it has completed its last step with the gradients of all ranks, so
/// ranks that were interrupted in that step can take its result. But the state of a single rank that is one step ahead
/// of all other ranks cannot be compared: all ranks go back to the previous state and repeat that step. Chooses the
/// checkpoint if find_contradiction finds a contradiction.
StateChoice choose_state(const std::vector<RecoveryState>& recovery_states);

}  // namespace lockstep::train
