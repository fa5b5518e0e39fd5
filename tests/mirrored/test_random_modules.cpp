// Random small modules, trained for some steps in random ways, against one process that does all ranks' work.
#include "mirrored/on_every_backend.h"

#include <array>
#include <random>

namespace lockstep::test {
namespace {

constexpr std::int64_t kWidth = 8;

std::uint32_t hash(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  std::seed_seq sequence{a, b, c, d};
  std::uint32_t result = 0;
  sequence.generate(&result, &result + 1);
  return result;
}

/// A random graph of layers over [batch, 8], in double precision so that only real differences show.
class RandomNet : public torch::nn::Module {
 public:
  explicit RandomNet(std::uint32_t seed) : seed_(seed), random_(seed) {
    torch::manual_seed(seed);
    const int operations = 2 + pick(6);
    for (int i = 0; i < operations; ++i) operations_.push_back(random_operation());
    if (pick(2) == 0) linears_.push_back(register_module("never", torch::nn::Linear(kWidth, kWidth)));
    to(at::kDouble);
    freeze_some();
  }

  at::Tensor loss(int rank, int step) {
    at::Tensor x = data({6, kWidth}, rank, step, at::kDouble);
    // At least one parameter takes part, as every backward needs.
    x = torch::linear(x, anchor_);
    for (std::uint32_t i = 0; i < operations_.size(); ++i) {
      if (operations_[i].sometimes && hash(seed_, i, rank, step) % 3 == 0) continue;
      x = apply(operations_[i], x);
    }
    return x.square().mean();
  }

 private:
  enum class Kind { linear, conv, norm };
  struct Operation {
    Kind kind = Kind::linear;
    std::size_t layer = 0;
    bool residual = false;
    bool sometimes = false;  ///< skipped by some ranks in some steps
  };

  int pick(int below) { return static_cast<int>(random_() % static_cast<std::uint32_t>(below)); }

  template <typename Layers, typename Make>
  std::size_t new_or_shared(Layers& layers, const char* name, Make make) {
    if (!layers.empty() && pick(3) == 0) return static_cast<std::size_t>(pick(static_cast<int>(layers.size())));
    layers.push_back(register_module(name + std::to_string(layers.size()), make()));
    return layers.size() - 1;
  }

  Operation random_operation() {
    Operation operation;
    operation.residual = pick(2) == 0;
    operation.sometimes = pick(3) == 0;
    switch (pick(4)) {
      case 0:
        operation.kind = Kind::conv;
        operation.layer = new_or_shared(convs_, "conv",
                                        [] { return torch::nn::Conv1d(torch::nn::Conv1dOptions(2, 2, 3).padding(1)); });
        break;
      case 1:
        operation.kind = Kind::norm;
        operation.layer = new_or_shared(norms_, "norm", [] { return torch::nn::BatchNorm1d(kWidth); });
        break;
      default: operation.layer = new_or_shared(linears_, "linear", [] { return torch::nn::Linear(kWidth, kWidth); });
    }
    return operation;
  }

  at::Tensor apply(const Operation& operation, const at::Tensor& x) {
    at::Tensor y;
    switch (operation.kind) {
      case Kind::linear: y = linears_[operation.layer](x); break;
      case Kind::conv: y = convs_[operation.layer](x.view({-1, 2, kWidth / 2})).flatten(1); break;
      case Kind::norm: y = norms_[operation.layer](x); break;
    }
    return operation.residual ? x + y.tanh() : torch::relu(y) + 0.1 * y;
  }

  void freeze_some() {
    for (auto& item : named_parameters()) {
      if (item.key() != "anchor" && pick(8) == 0) item.value().set_requires_grad(false);
    }
  }

  std::uint32_t seed_;
  std::mt19937 random_;
  at::Tensor anchor_ = register_parameter("anchor", torch::eye(kWidth));
  std::vector<torch::nn::Linear> linears_;
  std::vector<torch::nn::Conv1d> convs_;
  std::vector<torch::nn::BatchNorm1d> norms_;
  std::vector<Operation> operations_;
};

/// How a run trains, drawn from the seed.
struct Plan {
  explicit Plan(std::uint32_t seed) {
    std::mt19937 random(seed + 1);
    options.gradients_mean = random() % 3 != 0;
    constexpr std::array<std::int64_t, 4> kBytes{1, 300, 2000, 1 << 20};
    options.bucket_bytes = kBytes[random() % kBytes.size()];
    options.first_bucket_bytes = kBytes[random() % kBytes.size()];
    micro_batches = 1 + static_cast<int>(random() % 3);
    zeroing = static_cast<Zeroing>(random() % 3);
    adam = random() % 2 == 0;
  }

  std::unique_ptr<torch::optim::Optimizer> optimizer(const torch::nn::Module& module) const {
    // Small steps, because sums and gradients that are never zeroed grow.
    if (adam) return std::make_unique<torch::optim::Adam>(parameters_of(module), torch::optim::AdamOptions(1e-3));
    return std::make_unique<torch::optim::SGD>(parameters_of(module), torch::optim::SGDOptions(1e-3).momentum(0.9));
  }

  void zero(torch::nn::Module& module) const {
    if (zeroing != Zeroing::never) module.zero_grad(zeroing == Zeroing::to_none);
  }

  enum class Zeroing { to_none, to_zero, never };
  DataParallelOptions options;
  int micro_batches = 1;
  Zeroing zeroing = Zeroing::to_none;
  bool adam = false;
};

std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> result;
  for (const auto& tensor : tensors) result.push_back(tensor.clone());
  return result;
}

/// All ranks' micro-batches of a step in one process. Buffers end as rank 0's.
void emulate_backwards(RandomNet& net, const Plan& plan, int ranks, int step) {
  const auto parameters = parameters_of(net);
  const Gradients before = gradients_of(net);
  const auto buffers = net.buffers();
  const auto buffers_before = copies(buffers);
  std::vector<at::Tensor> buffers_after;
  Gradients total(parameters.size());
  for (int rank = 0; rank < ranks; ++rank) {
    for (auto parameter : parameters) parameter.mutable_grad().reset();
    for (std::size_t i = 0; i < buffers.size(); ++i) at::Tensor(buffers[i]).copy_(buffers_before[i]);
    for (int micro = 0; micro < plan.micro_batches; ++micro) net.loss(rank, 10 * step + micro).backward();
    if (rank == 0) buffers_after = copies(buffers);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor& gradient = parameters[i].grad();
      if (gradient.defined()) total[i] = total[i].defined() ? total[i] + gradient : gradient.clone();
    }
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) at::Tensor(buffers[i]).copy_(buffers_after[i]);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    at::Tensor result = before[i];
    if (total[i].defined()) {
      const at::Tensor reduced = plan.options.gradients_mean ? total[i] / ranks : total[i];
      result = result.defined() ? result + reduced : reduced;
    }
    at::Tensor(parameters[i]).mutable_grad() = result;
  }
}

void real_backwards(RandomNet& net, DataParallel& parallel, const Plan& plan, int rank, int step) {
  for (int micro = 0; micro + 1 < plan.micro_batches; ++micro) {
    const auto guard = parallel.no_sync();
    net.loss(rank, 10 * step + micro).backward();
  }
  net.loss(rank, 10 * step + plan.micro_batches - 1).backward();
}

void train_and_compare(std::uint32_t seed, Rank& rank) {
  const Plan plan(seed);
  const auto net = std::make_shared<RandomNet>(seed);
  const auto alone = std::make_shared<RandomNet>(seed);
  DataParallel parallel(net, rank.group(), plan.options);
  const auto optimizer = plan.optimizer(*net);
  const auto optimizer_alone = plan.optimizer(*alone);
  for (int step = 0; step < 5; ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    plan.zero(*net);
    plan.zero(*alone);
    real_backwards(*net, parallel, plan, rank.rank(), step);
    emulate_backwards(*alone, plan, rank.size(), step);
    expect_close(gradients_of(*net), gradients_of(*alone), 1e-8);
    expect_close(net->buffers(), alone->buffers(), 1e-8);
    optimizer->step();
    optimizer_alone->step();
  }
  expect_close(net->parameters(), alone->parameters(), 1e-8);
  expect_same_bits_on_all_ranks(net->parameters(), rank.group());
  expect_same_bits_on_all_ranks(gradients_of(*net), rank.group());
}

using RandomModulesTest = OnEveryBackend;
INSTANTIATE_TEST_SUITE_P(All, RandomModulesTest, testing::ValuesIn(every_backend()), case_name);

TEST_P(RandomModulesTest, TrainAsInOneProcess) {
  on_ranks([](Rank& rank) {
    for (std::uint32_t seed = 0; seed < 25; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      train_and_compare(seed, rank);
      if (testing::Test::HasFailure()) return;
    }
  });
}

}  // namespace
}  // namespace lockstep::test
