#include <lockstep/cli/bench_dispatch.h>
#include <lockstep/global/distribute_module.h>

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

namespace lockstep::cli {
namespace {

using Call = std::function<void()>;

double nanoseconds_of(const Call& call, int calls) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) call();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / calls;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

DispatchRow compare(const std::string& name, int rounds, int calls, const Call& plain, const Call& global) {
  nanoseconds_of(plain, calls / 10 + 3);
  nanoseconds_of(global, calls / 10 + 3);
  std::vector<double> of_plain, of_global;
  for (int round = 0; round < rounds; ++round) {
    of_plain.push_back(nanoseconds_of(plain, calls));
    of_global.push_back(nanoseconds_of(global, calls));
  }
  return {.name = name, .plain_ns = median(std::move(of_plain)), .global_ns = median(std::move(of_global))};
}

/// The operators as functions of two square matrices, without a graph.
std::vector<std::pair<std::string, std::function<void(at::Tensor&, at::Tensor&)>>> operators() {
  return {{"add", [](at::Tensor& a, at::Tensor& b) { a.add(b); }},
          {"relu", [](at::Tensor& a, at::Tensor&) { a.relu(); }},
          {"mul_", [](at::Tensor& a, at::Tensor&) { a.mul_(1.0); }},
          {"transpose", [](at::Tensor& a, at::Tensor&) { a.t(); }},
          {"matmul", [](at::Tensor& a, at::Tensor& b) { a.mm(b); }}};
}

torch::nn::Sequential make_mlp(std::int64_t hidden) {
  torch::manual_seed(1);
  return torch::nn::Sequential(torch::nn::Linear(784, hidden), torch::nn::ReLU(), torch::nn::Linear(hidden, hidden),
                               torch::nn::ReLU(), torch::nn::Linear(hidden, 10));
}

Call training_step(torch::nn::Sequential model, const at::Tensor& x, const at::Tensor& y) {
  const auto sgd =
      std::make_shared<torch::optim::SGD>(model->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  return [model, x, y, sgd]() mutable {
    sgd->zero_grad();
    torch::nn::functional::cross_entropy(model->forward(x), y).backward();
    sgd->step();
  };
}

DispatchRow compare_training(const Mesh& mesh, int rounds) {
  constexpr int kBatch = 64;
  constexpr int kHidden = 256;
  auto plain = make_mlp(kHidden);
  auto global = make_mlp(kHidden);
  const Placements split{Shard(0)};
  distribute_module(global, mesh);
  const auto x = torch::randn({kBatch, 784});
  const auto y = torch::randint(10, {kBatch});
  return compare("mlp_step_256", rounds, 50, training_step(plain, x, y),
                 training_step(global, distribute(x, mesh, split), distribute(y, mesh, split)));
}

}  // namespace

std::vector<DispatchRow> measure_dispatch(const Group& group, int rounds) {
  constexpr int kCalls = 20000;
  const Mesh mesh(group);
  std::vector<DispatchRow> rows;
  {
    const torch::NoGradGuard no_grad;
    for (const auto& [name, call] : operators()) {
      auto a = torch::ones({4, 4});
      auto b = torch::ones({4, 4});
      auto ga = distribute(a, mesh, {Shard(0)});
      auto gb = distribute(b, mesh, {name == "matmul" ? Replicate() : Shard(0)});
      rows.push_back(compare(
          name, rounds, kCalls, [&, &run = call] { run(a, b); }, [&, &run = call] { run(ga, gb); }));
    }
  }
  rows.push_back(compare_training(mesh, rounds));
  return rows;
}

}  // namespace lockstep::cli
