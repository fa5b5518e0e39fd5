// Counters of the collectives of operators and gradients on a mesh, by kind: for tests and for measuring a program's
// communication.
#pragma once

#include <lockstep/global/mesh.h>

#include <cstddef>
#include <cstdint>

namespace lockstep {

struct Traffic {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;  ///< bytes of this rank's inputs, including padding to equal parts

  void count(std::size_t sent_bytes) {
    ++calls;
    bytes += static_cast<std::int64_t>(sent_bytes);
  }
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

/// The collectives of operators on global tensors and of their gradients, along axes of more than one rank.
struct TrafficCount {
  Traffic all_gather;      ///< Shard -> Replicate
  Traffic all_reduce;      ///< Partial -> Replicate, and reductions inside local forms
  Traffic all_to_all;      ///< Shard -> Shard
  Traffic reduce_scatter;  ///< Partial -> Shard

  std::int64_t calls() const { return all_gather.calls + all_reduce.calls + all_to_all.calls + reduce_scatter.calls; }
  friend bool operator==(const TrafficCount&, const TrafficCount&) = default;
};

/// The counters of this rank since the mesh was created or `reset_traffic` was called. Not thread-safe beside operators
/// on the mesh.
TrafficCount traffic_of(const Mesh& mesh);
void reset_traffic(const Mesh& mesh);

}  // namespace lockstep
