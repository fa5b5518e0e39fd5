// The state of a Mesh: its groups, the placements and plans shared by its tensors, and counters of the collectives on
// it.
#pragma once

#include <lockstep/comm/operator_trace.h>
#include <lockstep/global/global_tensor.h>

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

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

/// Counters for tests and for measuring a program's communication, by kind.
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

namespace lockstep::global {

class GatheredWays;
class NamedOperators;
class PlanCache;
class Prefetch;
class Recorder;

/// Interned placements of one mesh: equal placements have the same object, so comparing addresses is enough.
struct Sharding {
  Placements placements;
  bool replicated = true;  ///< on every axis
};

struct PlacementLess {
  bool operator()(const Placements& a, const Placements& b) const;
};

class MeshState {
 public:
  /// `device`: the device of the parts; by default that of the group.
  MeshState(Group group, std::vector<int> sizes, std::vector<std::string> names,
            std::shared_ptr<Recorder> recorder = nullptr, std::optional<c10::Device> device = std::nullopt);
  ~MeshState();
  MeshState(const MeshState&) = delete;
  MeshState& operator=(const MeshState&) = delete;

  const std::vector<int>& sizes() const { return sizes_; }
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<int>& coordinate() const { return coordinate_; }
  const Group& group() const { return group_; }
  c10::Device device() const { return device_; }
  const Group& group(std::size_t axis) const { return axis_groups_[axis]; }

  /// The shared object for these placements, which exists as long as the mesh. Thread-safe.
  const Sharding* intern(const Placements& placements);
  const Sharding* replicated() const { return replicated_; }
  PlanCache& plans() { return *plans_; }
  TrafficCount& traffic() { return traffic_; }
  GatheredWays& gathered() { return *gathered_; }
  /// The trace of this rank's operators on the mesh, which every collective compares between ranks; nullptr when the
  /// group does not check arguments or has one rank.
  OperatorTrace* trace() { return trace_.get(); }
  /// The recorder of a mesh for tensors without memory, whose operators are recorded instead of executed; otherwise
  /// nullptr.
  Recorder* recorder() const { return recorder_.get(); }
  /// The operators with strategies of the user; nullptr: no operator has a strategy.
  NamedOperators* named_operators() const { return named_operators_.get(); }
  /// The prefetcher of parameters; nullptr: no prefetching.
  Prefetch* prefetch() const { return prefetch_.get(); }
  void set_prefetch(std::shared_ptr<Prefetch> prefetch) { prefetch_ = std::move(prefetch); }
  void set_named_operators(std::shared_ptr<NamedOperators> names) { named_operators_ = std::move(names); }

 private:
  Group group_;
  c10::Device device_;
  std::vector<int> sizes_;
  std::vector<std::string> names_;
  std::vector<int> coordinate_;
  std::vector<Group> axis_groups_;
  std::mutex mutex_;
  std::map<Placements, std::unique_ptr<Sharding>, PlacementLess> shardings_;
  const Sharding* replicated_ = nullptr;
  std::unique_ptr<PlanCache> plans_;
  TrafficCount traffic_;
  std::unique_ptr<GatheredWays> gathered_;
  std::shared_ptr<OperatorTrace> trace_;
  std::shared_ptr<Recorder> recorder_;
  std::shared_ptr<NamedOperators> named_operators_;
  std::shared_ptr<Prefetch> prefetch_;
};

// The ambient mesh: the mesh of operators without tensor arguments, such as the factory zeros().

/// Sets the ambient mesh of the process: the mesh created last. Thread-safe.
void set_ambient_mesh(const std::shared_ptr<MeshState>& mesh);

/// Records that this thread works with `mesh`, so that tensors that operators create internally get the same mesh.
void work_with(const std::shared_ptr<MeshState>& mesh);

/// The mesh of a MeshScope, else of the last global tensor that this thread used, else the mesh created last; nullptr
/// if there is none.
std::shared_ptr<MeshState> ambient_mesh();

/// Sets the mesh of this thread's MeshScope and returns the previous one; nullptr: none.
std::shared_ptr<MeshState> exchange_scoped_mesh(std::shared_ptr<MeshState> mesh);

}  // namespace lockstep::global
