#include <lockstep/comm/collectives.h>
#include <lockstep/kernels/threads.h>
#include <lockstep/plan/measure/device_rates.h>
#include <lockstep/plan/measure/link_rates.h>
#include <lockstep/plan/measure/measure.h>

#include <torch/torch.h>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace lockstep::plan {
namespace {

/// The ranks on this rank's host, in the order of the group.
Group ranks_on_this_host(const Group& group) {
  auto first = torch::full({1}, group.rank() - group.local_rank(), torch::kLong);
  const auto all = all_gather(first, group);
  std::optional<Group> mine;
  for (int leader = 0; leader < group.size(); ++leader) {
    std::vector<int> members;
    for (int rank = 0; rank < group.size(); ++rank) {
      if (all[rank].item<std::int64_t>() == leader) members.push_back(group.world_rank(rank));
    }
    if (members.empty()) continue;
    if (auto found = group.subgroup(members)) mine = std::move(found);
  }
  return mine.value();
}

}  // namespace

Cluster measure_cluster(const Group& group, const MeasureOptions& options) {
  set_num_threads(options.threads);
  Cluster cluster;
  cluster.devices_per_node = std::max(group.local_size(), 1);
  cluster.nodes = std::max(1, group.size() / cluster.devices_per_node);
  cluster.name = fmt::format("measured with {} rank(s) of {} thread(s), {} on a host, backend {}", group.size(),
                             options.threads, cluster.devices_per_node, group.backend());
  const Group here = group.size() == group.local_size() ? group : ranks_on_this_host(group);
  cluster.device = measure_device(group, options);
  if (here.size() > 1) {
    cluster.intra_node = measure_link(here, options);
    cluster.overlap = measure_overlap(here, options);
  }
  if (group.size() > here.size()) {
    cluster.inter_node = measure_link_between_hosts(group, here, cluster.intra_node, options);
    cluster.overlap = measure_overlap(group, options);
  }
  return cluster;
}

}  // namespace lockstep::plan
