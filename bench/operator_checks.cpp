// What comparing the operators of the global view costs: the same work on two meshes of the same ranks, one of which
// compares, in turn. Run it as
//   lockstep run --nproc-per-node 2 build/release/bench/operator_checks
#include <lockstep/comm/collectives.h>
#include <lockstep/global/global_tensor.h>

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace {

using lockstep::Mesh;
using lockstep::Replicate;
using lockstep::Shard;

constexpr int kRounds = 31;
constexpr int kCalls = 2000;

template <typename Work>
double nanoseconds_of(const Mesh& mesh, const Work& work) {
  lockstep::barrier(mesh.group());
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) work();
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
  return taken.count() / kCalls;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

template <typename Work>
void compare(const char* name, const Mesh& checked, const Mesh& unchecked, const Work& work) {
  const auto with = lockstep::distribute(torch::ones({256}), checked, {Shard(0)});
  const auto without = lockstep::distribute(torch::ones({256}), unchecked, {Shard(0)});
  std::vector<double> compared;
  std::vector<double> not_compared;
  for (int round = 0; round < kRounds; ++round) {
    compared.push_back(nanoseconds_of(checked, [&] { work(with); }));
    not_compared.push_back(nanoseconds_of(unchecked, [&] { work(without); }));
  }
  if (checked.group().rank() != 0) return;
  fmt::print("{:<40} compared {:8.0f} ns  not compared {:8.0f} ns  fastest rounds {:8.0f} {:8.0f} ns\n", name,
             median(compared), median(not_compared), *std::ranges::min_element(compared),
             *std::ranges::min_element(not_compared));
}

}  // namespace

int main() {
  const torch::NoGradGuard no_grad;
  const auto group = lockstep::init();
  const Mesh checked(group);
  const Mesh unchecked(group.unchecked());
  compare("redistribute 1 KB, Shard to Replicate", checked, unchecked,
          [](const at::Tensor& x) { lockstep::redistribute(x, {Replicate()}); });
  compare("add of 1 KB, nothing sent", checked, unchecked, [](const at::Tensor& x) { x.add(1); });
}
