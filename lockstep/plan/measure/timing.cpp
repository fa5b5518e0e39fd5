// Wall times of the slowest rank, from a barrier on, and turns of steps in which a plan and data parallel alternate.
#include <lockstep/comm/collectives.h>
#include <lockstep/plan/measure/timing.h>

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
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

}  // namespace lockstep::plan
