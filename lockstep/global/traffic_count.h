// Counters of the data that operators and gradients sent on a mesh, by kind: for tests and for measuring a program's
// communication.
#pragma once

#include <lockstep/global/mesh.h>

#include <cstddef>
#include <cstdint>

namespace lockstep {

struct Traffic {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;  ///< of what this rank puts in, padding to equal parts included

  void count(std::size_t sent_bytes) {
    ++calls;
    bytes += static_cast<std::int64_t>(sent_bytes);
  }
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

/// Collectives that operators on global tensors and their gradients made, along axes of more than one rank.
struct TrafficCount {
  Traffic all_gather;      ///< Shard -> Replicate
  Traffic all_reduce;      ///< Partial -> Replicate, and what local forms add up
  Traffic all_to_all;      ///< Shard -> Shard
  Traffic reduce_scatter;  ///< Partial -> Shard

  std::int64_t calls() const { return all_gather.calls + all_reduce.calls + all_to_all.calls + reduce_scatter.calls; }
  friend bool operator==(const TrafficCount&, const TrafficCount&) = default;
};

/// Since the mesh was made or `reset_traffic`. This rank's own count. Not thread-safe beside operators on the mesh.
TrafficCount traffic_of(const Mesh& mesh);
void reset_traffic(const Mesh& mesh);

}  // namespace lockstep
