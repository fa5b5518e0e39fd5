// The measurement of links, and of a whole cluster.
#include <lockstep/comm/collectives.h>
#include <lockstep/kernels/tuning.h>
#include <lockstep/plan/measure/measure.h>
#include <lockstep/plan/measure/timing.h>

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <numeric>

namespace lockstep::plan {
namespace {

constexpr std::int64_t kLarge = 32 << 20;
constexpr std::int64_t kSmall = 1 << 10;

double all_reduce_seconds(const Group& group, std::int64_t bytes, int rounds) {
  auto tensor = torch::zeros({bytes / static_cast<std::int64_t>(sizeof(float))}, c10::Device(group.device()));
  return seconds_together(group, rounds, [&] { all_reduce(tensor, group.unchecked()); });
}

/// The cost of a small all_reduce between pieces of work: besides its messages, each rank waits for the rank whose work
/// took longest. If cores are shared with other programs, that wait is most of the cost.
double seconds_of_rendezvous(const Group& group, int rounds) {
  constexpr int kPieces = 10;
  const c10::Device device(group.device());
  const auto a = torch::ones({384, 384}, device);
  auto small = torch::zeros({kSmall / static_cast<std::int64_t>(sizeof(float))}, device);
  const double alone = seconds_together(group, rounds, [&] {
    for (int i = 0; i < kPieces; ++i) a.mm(a);
  });
  const double rendezvous = seconds_together(group, rounds, [&] {
    for (int i = 0; i < kPieces; ++i) {
      a.mm(a);
      all_reduce(small, group.unchecked());
    }
  });
  return (rendezvous - alone) / kPieces;
}

struct Measured {
  double small = 0;
  double large = 0;
};

Measured measure_all_reduce(const Group& group, int rounds) {
  return {.small = std::max(all_reduce_seconds(group, kSmall, rounds * 4), seconds_of_rendezvous(group, rounds)),
          .large = all_reduce_seconds(group, kLarge, rounds)};
}

/// A ring of n ranks sends 2 (n - 1) / n of the bytes over each link in 2 (n - 1) steps.
Link of_ring(const Measured& measured, int ranks) {
  const double turns = 2.0 * (ranks - 1);
  const double latency = std::max(measured.small / turns, 1e-7);
  const double sending = std::max(measured.large - measured.small, measured.large * 0.1);
  return {.bandwidth = BytesPerSecond{turns / ranks * kLarge / sending}, .latency = Seconds{latency}};
}

/// Measures a group whose ranks have equal links: the bandwidth and latency with which a ring would take the measured
/// times of an all_reduce of 32 MB and one of 1 KB. A collective.
Link measure_link(const Group& group, const MeasureOptions& options) {
  return of_ring(measure_all_reduce(group, options.rounds), group.size());
}

/// Measures the link between the hosts of `group`: the time of its all_reduce beyond that within a host. `here` are the
/// ranks on this host.
Link measure_link_between_hosts(const Group& group, const Group& here, const Link& inside,
                                const MeasureOptions& options) {
  auto measured = measure_all_reduce(group, options.rounds);
  const int hosts = std::max(2, group.size() / here.size());
  if (here.size() > 1) {  // reduction and broadcast inside the host cost as much as an all_reduce there
    const double turns = 2.0 * (here.size() - 1);
    measured.small = std::max(measured.small - turns * inside.latency.value, measured.small * 0.1);
    measured.large =
        std::max(measured.large - turns / here.size() * kLarge / inside.bandwidth.value, measured.large * 0.1);
  }
  return of_ring(measured, hosts);
}

/// The fraction of an all_reduce that does not slow down computation at the same time, from 0 to 1.
double measure_overlap(const Group& group, const MeasureOptions& options) {
  const c10::Device device(group.device());
  auto tensor = torch::zeros({kLarge / static_cast<std::int64_t>(sizeof(float))}, device);
  const auto a = torch::ones({512, 512}, device);
  const double reducing = all_reduce_seconds(group, kLarge, options.rounds);
  const double product = seconds_together(group, options.rounds, [&] { a.mm(a); });
  const int products = std::clamp(static_cast<int>(reducing / product) + 1, 1, 10'000);
  const auto compute = [&] {
    for (int i = 0; i < products; ++i) a.mm(a);
  };
  const double computing = seconds_together(group, options.rounds, compute);
  const double both = seconds_together(group, options.rounds, [&] {
    auto work = all_reduce_async(tensor, group.unchecked());
    compute();
    work.wait();
  });
  return std::clamp((computing + reducing - both) / reducing, 0.0, 1.0);
}

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
  cluster.name = fmt::format("measured with {} rank(s) of {} thread(s) on {}, {} on a host, backend {}, products of {}",
                             group.size(), options.threads, c10::Device(group.device()).is_cuda() ? "CUDA" : "the CPU",
                             cluster.devices_per_node, group.backend(), c10::toString(options.dtype));
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
