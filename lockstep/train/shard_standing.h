// Where each rank has a part of the state for itself: which ranks of a new generation can give which part. Pure.
//
// The next rank in a ring keeps a copy of each part (shard_backup.h, buffer_ring.h): of the last step that it has
// completed, and perhaps also of the one after it, in which it was interrupted.
#pragma once

#include <lockstep/train/standing.h>

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

/// What one rank brings along.
struct ShardStanding {
  Standing shared{};   ///< its SHA-256 is that of what all ranks have; nothing else counts without a state
  PartHashes parts{};  ///< after the step that it has completed
  std::optional<PartHashes> next{};  ///< after the step that follows

  bool operator==(const ShardStanding&) const = default;
};

/// As one JSON object, and back. Error(data) for anything else.
std::string to_json(const ShardStanding& standing);
ShardStanding parse_shard_standing(std::string_view json);

struct ShardSource {
  int rank = 0;
  bool is_copy = false;  ///< of the rank before it; else its own part

  bool operator==(const ShardSource&) const = default;
};

struct ShardChoice {
  std::optional<int> rank{};           ///< whose step and shared tensors count; nullopt: the newest checkpoint
  std::vector<ShardSource> sources{};  ///< of each rank's part
  std::string reason;                  ///< for people; empty where nobody had anything
};

/// The step of the rank that has come furthest. The choice is the checkpoint where find_contradiction finds one, where
/// a part is gone with both that had it, and where a part and its copy differ.
ShardChoice choose_shards(const std::vector<ShardStanding>& standings);

}  // namespace lockstep::train
