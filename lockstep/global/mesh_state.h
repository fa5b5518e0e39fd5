// The state of a Mesh: its groups, and the placements and plans shared by its tensors.
#pragma once

#include <lockstep/comm/operator_trace.h>
#include <lockstep/global/mesh.h>
#include <lockstep/global/traffic_count.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace lockstep::global {

class PlanCache;
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
  MeshState(Group group, std::vector<int> sizes, std::vector<std::string> names,
            std::shared_ptr<Recorder> recorder = nullptr);
  ~MeshState();
  MeshState(const MeshState&) = delete;
  MeshState& operator=(const MeshState&) = delete;

  const std::vector<int>& sizes() const { return sizes_; }
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<int>& coordinate() const { return coordinate_; }
  const Group& group() const { return group_; }
  const Group& group(std::size_t axis) const { return axis_groups_[axis]; }

  /// The shared object for these placements, which lives as long as the mesh. Thread-safe.
  const Sharding* intern(const Placements& placements);
  const Sharding* replicated() const { return replicated_; }
  PlanCache& plans() { return *plans_; }
  TrafficCount& traffic() { return traffic_; }
  /// The trace of this rank's operators on the mesh, which every collective compares between ranks; nullptr when the
  /// group does not check arguments or has one rank.
  OperatorTrace* trace() { return trace_.get(); }
  /// The recorder of a mesh for tensors without memory, whose operators are recorded instead of executed; otherwise
  /// nullptr.
  Recorder* recorder() const { return recorder_.get(); }

 private:
  Group group_;
  std::vector<int> sizes_;
  std::vector<std::string> names_;
  std::vector<int> coordinate_;
  std::vector<Group> axis_groups_;
  std::mutex mutex_;
  std::map<Placements, std::unique_ptr<Sharding>, PlacementLess> shardings_;
  const Sharding* replicated_ = nullptr;
  std::unique_ptr<PlanCache> plans_;
  TrafficCount traffic_;
  std::shared_ptr<OperatorTrace> trace_;
  std::shared_ptr<Recorder> recorder_;
};

}  // namespace lockstep::global
