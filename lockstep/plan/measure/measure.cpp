// Wall times of the slowest rank, from a barrier on; turns of steps in which a plan and data parallel alternate; and
// the measurement of links, and of a whole cluster.
#include <lockstep/comm/collectives.h>
#include <lockstep/kernels/tuning.h>
#include <lockstep/plan/measure/measure.h>

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

namespace lockstep::plan {

double seconds_of_slowest(const Group& group, const std::function<void()>& work) {
  const c10::Device device(group.device());
  const auto finish = [&] {
    if (device.is_cuda()) torch::cuda::synchronize(device.index());
  };
  finish();
  barrier(group);
  const auto start = std::chrono::steady_clock::now();
  work();
  finish();
  auto seconds =
      torch::full({1}, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), torch::kDouble);
  all_reduce(seconds, group, ReduceOp::max);
  return seconds.item<double>();
}

double seconds_together(const Group& group, int rounds, const std::function<void()>& work) {
  work();
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) times.push_back(seconds_of_slowest(group, work));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

namespace {

constexpr double kSecondsOfTurn = 0.25;
constexpr double kMostStepsOfTurn = 200;

}  // namespace

bool may_try_data_parallel(const Plan& plan, std::vector<std::string>& remarks) {
  if (is_data_parallel(plan)) return false;
  const auto* plain = find_alternative(plan, "data_parallel");
  if (plain == nullptr || plain->fits) return true;
  remarks.emplace_back("not measured beside data parallel, which does not fit into memory");
  return false;
}

bool beats_data_parallel(int steps, double at_most, const MeasuredSteps& of_plan, const MeasuredSteps& of_data_parallel,
                         std::vector<std::string>& remarks) {
  const int asked = (steps + 1) / 2;
  int of_turn = asked;
  double plan = of_plan(of_turn);
  double plain = of_data_parallel(of_turn);
  if (const auto longer = std::min(kMostStepsOfTurn, kSecondsOfTurn / std::max(plan, plain)); longer > 2 * of_turn) {
    of_turn = static_cast<int>(longer);
    plan = of_plan(of_turn);
    plain = of_data_parallel(of_turn);
  }
  plan = std::min(plan, of_plan(of_turn));
  plain = std::min(plain, of_data_parallel(of_turn));
  const bool plan_wins = plan <= at_most * plain;
  remarks.push_back(fmt::format(
      "measured over {} steps: the plan {:.2f} ms a step, data parallel {:.2f} ms; going on with {}",
      of_turn == asked ? steps : 2 * of_turn, plan * 1e3, plain * 1e3, plan_wins ? "the plan" : "data parallel"));
  return plan_wins;
}

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
