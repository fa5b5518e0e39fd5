// Timings of collectives (checked results, median of batches) and of global-tensor dispatch against plain tensors.
#include <lockstep/cli/bench_measure.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/global/global_tensor.h>

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <utility>

namespace lockstep::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// A prepared collective, which can run repeatedly on the same memory.
struct Subject {
  std::function<void()> fill;  ///< the input for `check`, different on each rank
  std::function<void()> run;
  std::function<bool()> check;  ///< after one `fill` and one `run`
};

struct Maker {
  const BenchRequest& request;
  const Group& group;
  std::int64_t row;  ///< elements one rank contributes or gets

  std::int64_t n() const { return group.size(); }

  at::Tensor memory(std::int64_t elements) const {
    return request.ordinary_memory ? torch::empty({elements}) : allocate(group, elements, static_cast<int>(at::kFloat));
  }

  /// Small whole numbers, so that every sum is exact: element i of rank r is (i mod 7) + r.
  at::Tensor pattern(std::int64_t elements, int rank) const {
    return torch::arange(elements, torch::kLong).remainder(7).add(rank).to(torch::kFloat);
  }
  at::Tensor sum_of_patterns(std::int64_t elements) const {
    const std::int64_t ranks = n();
    return torch::arange(elements, torch::kLong).remainder(7).mul(ranks).add(ranks * (ranks - 1) / 2).to(torch::kFloat);
  }

  Subject all_reduce_subject() const {
    at::Tensor tensor = memory(row * n());
    return {[=, *this] { tensor.copy_(pattern(tensor.numel(), group.rank())); },
            [=, *this]() mutable { all_reduce(tensor, group); },
            [=, *this] { return tensor.equal(sum_of_patterns(tensor.numel())); }};
  }
  Subject broadcast_subject() const {
    at::Tensor tensor = memory(row * n());
    return {[=, *this] { tensor.copy_(pattern(tensor.numel(), group.rank())); },
            [=, *this]() mutable { broadcast(tensor, group, 0); },
            [=, *this] { return tensor.equal(pattern(tensor.numel(), 0)); }};
  }
  Subject all_gather_subject() const {
    at::Tensor input = memory(row);
    at::Tensor output = memory(row * n());
    return {[=, *this] { input.copy_(pattern(row, group.rank())); },
            [=, *this]() mutable { all_gather_async(output, input, group).wait(); },
            [=, *this] {
              for (int rank = 0; rank < group.size(); ++rank) {
                if (!output.narrow(0, rank * row, row).equal(pattern(row, rank))) return false;
              }
              return true;
            }};
  }
  Subject reduce_scatter_subject() const {
    at::Tensor input = memory(row * n());
    at::Tensor output = memory(row);
    return {[=, *this] { input.copy_(pattern(input.numel(), group.rank())); },
            [=, *this]() mutable { reduce_scatter_async(output, input, group).wait(); },
            [=, *this] { return output.equal(sum_of_patterns(row * n()).narrow(0, group.rank() * row, row)); }};
  }
  Subject all_to_all_subject() const {
    at::Tensor input = memory(row * n());
    at::Tensor output = memory(row * n());
    return {[=, *this] { input.copy_(pattern(input.numel(), group.rank())); },
            [=, *this]() mutable { all_to_all_async(output, input, group).wait(); },
            [=, *this] {
              for (int rank = 0; rank < group.size(); ++rank) {
                const at::Tensor theirs = pattern(row * n(), rank).narrow(0, group.rank() * row, row);
                if (!output.narrow(0, rank * row, row).equal(theirs)) return false;
              }
              return true;
            }};
  }
};

struct OpDescription {
  Subject (Maker::*make)() const;
  double (*bus_factor)(double ranks);
};

const std::map<std::string, OpDescription>& descriptions() {
  static const std::map<std::string, OpDescription> table = {
      {"all_gather", {&Maker::all_gather_subject, [](double n) { return (n - 1) / n; }}},
      {"all_reduce", {&Maker::all_reduce_subject, [](double n) { return 2 * (n - 1) / n; }}},
      {"all_to_all", {&Maker::all_to_all_subject, [](double n) { return (n - 1) / n; }}},
      {"broadcast", {&Maker::broadcast_subject, [](double) { return 1.0; }}},
      {"reduce_scatter", {&Maker::reduce_scatter_subject, [](double n) { return (n - 1) / n; }}},
  };
  return table;
}

double seconds_of(const std::function<void()>& run, std::int64_t times, const Group& group) {
  barrier(group);
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < times; ++i) run();
  return std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(times);
}

bool agree(bool value, const Group& group) {
  at::Tensor all = torch::full({1}, value ? 1 : 0, torch::kInt);
  all_reduce(all, group, ReduceOp::min);
  return all.item<int>() == 1;
}

/// Enough runs for a batch of some 20 ms; rank 0 decides.
std::int64_t batch_length(const std::function<void()>& run, const Group& group) {
  constexpr double kBatchSeconds = 0.02;
  const double once = seconds_of(run, 3, group);
  at::Tensor times = torch::full({1}, static_cast<std::int64_t>(kBatchSeconds / std::max(once, 1e-7)), torch::kLong);
  broadcast(times, group, 0);
  return std::clamp<std::int64_t>(times.item<std::int64_t>(), 2, 10'000);
}

BenchRow measure_size(const BenchRequest& request, const OpDescription& op, std::int64_t bytes, const Group& group) {
  const auto ranks = static_cast<std::int64_t>(group.size());
  const auto row_bytes = ranks * static_cast<std::int64_t>(sizeof(float));
  const Maker maker{request, group, std::max<std::int64_t>(1, (bytes + row_bytes - 1) / row_bytes)};
  const Subject subject = (maker.*op.make)();

  BenchRow row;
  row.bytes = maker.row * row_bytes;
  subject.fill();
  subject.run();
  row.correct = agree(subject.check(), group);

  const std::int64_t times = batch_length(subject.run, group);
  std::vector<double> batches;
  for (int i = 0; i < request.repeats; ++i) {
    subject.fill();
    batches.push_back(seconds_of(subject.run, times, group));
  }
  std::nth_element(batches.begin(), batches.begin() + batches.size() / 2, batches.end());
  const double seconds = batches[batches.size() / 2];
  row.microseconds = seconds * 1e6;
  row.algbw = static_cast<double>(row.bytes) / seconds / 1e9;
  row.busbw = row.algbw * op.bus_factor(static_cast<double>(ranks));
  return row;
}

using BenchCall = std::function<void()>;

double nanoseconds_of(const BenchCall& call, int calls) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) call();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / calls;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

DispatchRow compare(const std::string& name, int rounds, int calls, const BenchCall& plain, const BenchCall& global) {
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

BenchCall training_step(torch::nn::Sequential model, const at::Tensor& x, const at::Tensor& y) {
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

const std::vector<std::string>& bench_ops() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, unused] : descriptions()) all.push_back(name);
    return all;
  }();
  return names;
}

std::vector<BenchRow> measure(const BenchRequest& request, const Group& group) {
  const OpDescription& op = descriptions().at(request.op);
  std::vector<BenchRow> rows;
  for (const std::int64_t bytes : request.sizes) rows.push_back(measure_size(request, op, bytes, group));
  return rows;
}

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
