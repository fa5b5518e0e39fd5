// The choice of sources for a distributed run state: which ranks of a new generation can give which part. Pure.
//
// The next rank in a ring keeps a copy of each part (shard_backup.h, buffer_ring.h): of the last step that it has
// completed, and perhaps also of the one after it, in which it was interrupted.
#pragma once

#include <lockstep/train/recovery/recovery_state.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

/// SHA-256 of the parts that a rank has of one step.
struct PartHashes {
  std::string own;
  std::string copy;  ///< of the rank before it

  bool operator==(const PartHashes&) const = default;
};

/// The summary of the parts that one rank has kept.
struct ShardRecoveryState {
  RecoveryState shared{};            ///< its SHA-256 is that of the shared tensors; the rest is valid only with a state
  PartHashes parts{};                ///< after the step that it has completed
  std::optional<PartHashes> next{};  ///< after the step that follows

  bool operator==(const ShardRecoveryState&) const = default;
};

/// Conversion to one JSON object and from it. Error(data) for any other text.
std::string to_json(const ShardRecoveryState& recovery_state);
ShardRecoveryState parse_shard_recovery_state(std::string_view json);

struct ShardSource {
  int rank = 0;
  bool is_copy = false;  ///< of the rank before it; else its own part

  bool operator==(const ShardSource&) const = default;
};

struct ShardChoice {
  std::optional<int> rank{};           ///< of the step and shared tensors; nullopt: the newest checkpoint
  std::vector<ShardSource> sources{};  ///< of each rank's part
  std::string reason;                  ///< for people; empty where no rank had a state
};

/// Chooses the step of the most advanced rank. The choice is the checkpoint where find_contradiction finds one, where
/// a part is lost with both ranks that had it, and where a part and its copy differ.
ShardChoice choose_shards(const std::vector<ShardRecoveryState>& recovery_states);

}  // namespace lockstep::train
