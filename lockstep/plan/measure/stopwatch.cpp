#include <lockstep/comm/collectives.h>
#include <lockstep/plan/measure/stopwatch.h>

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace lockstep::plan {

double seconds_of_slowest(const Group& group, const std::function<void()>& work) {
  barrier(group);
  const auto start = std::chrono::steady_clock::now();
  work();
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

}  // namespace lockstep::plan
