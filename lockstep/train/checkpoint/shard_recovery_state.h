// The choice of sources for a distributed run state: the ranks of a new generation that can supply each part. Pure.
//
// The next rank in a ring keeps a copy of each part (shard_backup.h, buffer_ring.h): after its last completed step, and
// perhaps also after the following step, in which it was interrupted.
#pragma once

#include <lockstep/train/checkpoint/recovery_state.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

/// SHA-256 of the parts of one step that a rank has.
struct PartHashes {
  std::string own;
  std::string copy;  ///< of the previous rank

  bool operator==(const PartHashes&) const = default;
};

/// The summary of the parts that one rank has kept.
struct ShardRecoveryState {
  RecoveryState shared{};            ///< its SHA-256 is that of the shared tensors; the rest is valid only with a state
  PartHashes parts{};                ///< after its last completed step
  std::optional<PartHashes> next{};  ///< after the following step

  bool operator==(const ShardRecoveryState&) const = default;
};

/// Conversion to one JSON object and from it. Error(data) for any other text.
std::string to_json(const ShardRecoveryState& recovery_state);
ShardRecoveryState parse_shard_recovery_state(std::string_view json);

struct ShardSource {
  int rank = 0;
  bool is_copy = false;  ///< of the previous rank; else its own part

  bool operator==(const ShardSource&) const = default;
};

struct ShardChoice {
  std::optional<int> rank{};           ///< of the step and shared tensors; nullopt: the newest checkpoint
  std::vector<ShardSource> sources{};  ///< of each rank's part
  std::string reason;                  ///< for users; empty if no rank had a state
};

/// Chooses the step of the most advanced rank. The choice is the checkpoint where find_contradiction finds one, where
/// both ranks with a part are lost, and where a part and its copy differ.
ShardChoice choose_shards(const std::vector<ShardRecoveryState>& recovery_states);

}  // namespace lockstep::train
