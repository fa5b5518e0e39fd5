// The choice of the state to continue from, among those that the ranks of a new generation have in memory. Pure.
//
// Either each rank has the whole state, or a part of it: then the next rank in a ring keeps a copy of each part, after
// its last completed step, and perhaps also after the following step, in which it was interrupted (kept_state.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::state {

/// SHA-256 of the parts of one step that a rank has.
struct PartHashes {
  std::string own;
  std::string copy;  ///< of the previous rank

  bool operator==(const PartHashes&) const = default;
};

/// The summary of the state that one rank has in memory.
struct RecoveryState {
  bool has_state = false;  ///< false: a new process, or one that cannot continue from memory
  std::int64_t step = 0;   ///< completed steps; this and the rest are valid only with a state
  std::int64_t epoch = 0;  ///< finished
  std::int64_t evaluations = 0;
  std::string sha256;                 ///< of the tensors that belong to no part: all tensors of a whole state
  std::optional<PartHashes> parts{};  ///< after the last completed step; none: the state is whole
  std::optional<PartHashes> next{};   ///< after the following step

  bool operator==(const RecoveryState&) const = default;
};

/// Conversion to one JSON object and from it. Error(data) for any other text.
std::string to_json(const RecoveryState& recovery_state);
RecoveryState parse_recovery_state(std::string_view json);

struct PartSource {
  int rank = 0;
  bool is_copy = false;  ///< of the previous rank; else its own part

  bool operator==(const PartSource&) const = default;
};

struct StateChoice {
  std::optional<int> rank{};  ///< the rank whose state all ranks take; nullopt: the newest checkpoint, or the beginning
  std::vector<PartSource> sources{};  ///< of each rank's part; empty where states are whole
  std::string reason;                 ///< for users; empty if no rank had a state
};

/// Chooses the state of the most advanced rank: it has completed its last step with the gradients of all ranks, so
/// ranks that were interrupted in that step can take its result. A whole state counts before parts.
///
/// Nothing confirms the whole state of a single rank that is one step ahead of all other ranks: all ranks go back to
/// the previous state and repeat that step. A part is confirmed by its copy.
///
/// Chooses the checkpoint where the states contradict each other. A step needs all ranks: they are at most one step
/// apart, ranks at the same step have equal states, and parts equal their copies. Else one state is wrong, and it is
/// unknown which one. Also where both ranks with a part are lost.
StateChoice choose_state(std::vector<RecoveryState> recovery_states);

}  // namespace lockstep::state
