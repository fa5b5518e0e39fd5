// Replicas stay equal: at the start, through every optimizer, with uneven data; buffers; and modules that differ.
#include "mirrored/nets.h"
#include "mirrored/on_every_backend.h"

#include <lockstep/comm/collectives.h>

#include <array>

namespace lockstep::test {
namespace {

using ReplicasTest = OnEveryBackend;
INSTANTIATE_TEST_SUITE_P(All, ReplicasTest, testing::ValuesIn(every_backend()), case_name);

TEST_P(ReplicasTest, StartFromRankZerosParametersAndBuffers) {
  on_ranks([](Rank& rank) {
    torch::manual_seed(rank.rank());
    const auto module = std::make_shared<Pictures>();
    module->norm->running_mean.fill_(rank.rank() + 3);
    module->norm->num_batches_tracked.fill_(rank.rank() + 40);
    DataParallel parallel(module, rank.group(), {.buffers = BufferPolicy::local});
    expect_same_bits_on_all_ranks(module->parameters(), rank.group());
    EXPECT_TRUE(torch::equal(module->norm->running_mean, torch::full({8}, 3.0)));
    EXPECT_EQ(module->norm->num_batches_tracked.item<std::int64_t>(), 40);
    torch::manual_seed(0);
    EXPECT_TRUE(torch::equal(module->conv->weight, Pictures().conv->weight));
  });
}

TEST_P(ReplicasTest, StartEqualWithAllKindsOfTensors) {
  struct Many : Mixed {
    at::Tensor flags = register_buffer("flags", torch::zeros({3}, at::kBool));
    at::Tensor counts = register_buffer("counts", torch::zeros({2, 2}, at::kShort));
    at::Tensor scalar = register_buffer("scalar", torch::zeros({}, at::kLong));
    at::Tensor none = register_buffer("none", torch::zeros({0}, at::kLong));
    at::Tensor wave = register_buffer("wave", torch::zeros({3}, at::kComplexFloat));
    at::Tensor transposed = register_buffer("transposed", torch::zeros({3, 4}).t());
    at::Tensor big = register_parameter("big", torch::zeros({9 << 20}), false);  // above a piece of 32 MiB
  };
  on_ranks([](Rank& rank) {
    const auto module = std::make_shared<Many>();
    const double value = rank.rank() == 0 ? 2 : 0;
    {
      torch::NoGradGuard no_grad;
      for (auto& buffer : module->buffers()) buffer.fill_(value);
      for (auto* parameter : {&module->a, &module->b, &module->c, &module->d, &module->big}) parameter->fill_(value);
    }
    module->transposed[1][2] = 5 * value;
    DataParallel parallel(module, rank.group());
    for (const auto& buffer : module->buffers()) {
      if (buffer.is_same(module->transposed)) continue;
      EXPECT_TRUE(torch::equal(buffer, torch::full_like(buffer, 2)));
    }
    EXPECT_EQ(module->transposed[1][2].item<float>(), 10);
    EXPECT_EQ(module->transposed[2][1].item<float>(), 2);
    EXPECT_TRUE(torch::equal(module->c, torch::full({4}, 2, at::kBFloat16)));
    EXPECT_TRUE(torch::equal(module->big, torch::full({9 << 20}, 2.0)));
  });
}

TEST_P(ReplicasTest, TakeRankZerosBuffersAfterEachSynchronizedBackward) {
  on_ranks([](Rank& rank) {
    const auto scenario = scenario_of<Pictures>();
    const auto module = std::dynamic_pointer_cast<Pictures>(scenario.make());
    const auto first = std::dynamic_pointer_cast<Pictures>(scenario.make());  // does what rank 0 does
    DataParallel parallel(module, rank.group());
    for (int step = 0; step < 3; ++step) {
      first->loss(0, step);
      const at::Tensor loss = module->loss(rank.rank(), step);
      if (step == 1) {
        const auto guard = parallel.no_sync();
        loss.backward();
        const bool equal = torch::equal(module->norm->running_mean, first->norm->running_mean);
        EXPECT_EQ(equal, rank.rank() == 0) << "nothing is sent under no_sync";
      } else {
        loss.backward();
        EXPECT_TRUE(torch::equal(module->norm->running_mean, first->norm->running_mean));
        EXPECT_TRUE(torch::equal(module->norm->running_var, first->norm->running_var));
        EXPECT_TRUE(torch::equal(module->norm->num_batches_tracked, first->norm->num_batches_tracked));
      }
    }
  });
}

TEST_P(ReplicasTest, TakeBuffersWhileAnotherGraphHoldsThem) {
  on_ranks([](Rank& rank) {
    const auto module = std::make_shared<Pictures>();
    DataParallel parallel(module, rank.group());
    const at::Tensor one = module->loss(rank.rank(), 0);
    const at::Tensor two = module->loss(rank.rank(), 1);
    one.backward();
    two.backward();
    expect_same_bits_on_all_ranks(module->buffers(), rank.group());
  });
}

TEST_P(ReplicasTest, KeepBuffersOfTheirOwnUntilAsked) {
  on_ranks([](Rank& rank) {
    const auto scenario = scenario_of<Pictures>();
    const auto module = std::dynamic_pointer_cast<Pictures>(scenario.make());
    const auto mine = std::dynamic_pointer_cast<Pictures>(scenario.make());
    const auto first = std::dynamic_pointer_cast<Pictures>(scenario.make());
    DataParallel parallel(module, rank.group(), {.buffers = BufferPolicy::local});
    for (int step = 0; step < 2; ++step) {
      mine->loss(rank.rank(), step);
      first->loss(0, step);
      module->loss(rank.rank(), step).backward();
      EXPECT_TRUE(torch::equal(module->norm->running_mean, mine->norm->running_mean));
    }
    parallel.synchronize_buffers();
    EXPECT_TRUE(torch::equal(module->norm->running_mean, first->norm->running_mean));
    EXPECT_TRUE(torch::equal(module->norm->running_var, first->norm->running_var));
  });
}

TEST_P(ReplicasTest, GoOnWhenSomeRanksHaveNoData) {
  Scenario scenario = scenario_of<Toy>();
  scenario.loss = [](torch::nn::Module& module, int rank, int step) {
    if (rank > 0 && (rank + step) % 2 == 0) return at::Tensor();
    return dynamic_cast<Toy&>(module).loss(rank, step);
  };
  expect_equals_one_process(scenario);
  expect_equals_one_process(scenario, {.gradients_mean = false, .bucket_bytes = 1, .first_bucket_bytes = 1});
}

TEST_P(ReplicasTest, HoldModulesWithoutAnythingToTrain) {
  on_ranks([](Rank& rank) {
    const auto empty = std::make_shared<torch::nn::ReLUImpl>();
    DataParallel nothing(empty, rank.group());
    nothing.backward_without_data();
    nothing.synchronize_buffers();
    torch::nn::Linear frozen(2, 2);
    for (auto& parameter : frozen->parameters()) parameter.set_requires_grad(false);
    DataParallel fixed(frozen, rank.group());
    fixed.backward_without_data();
    expect_same_bits_on_all_ranks(frozen->parameters(), rank.group());
    EXPECT_EQ(&fixed.module(), frozen.get());
    EXPECT_EQ(fixed.group().rank(), rank.rank());
  });
}

// ---- optimizers ---------------------------------------------------------------------------------------------------

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>;

template <typename Optimizer, typename Options>
MakeOptimizer optimizer_of(Options options) {
  return [options](std::vector<at::Tensor> parameters) { return std::make_unique<Optimizer>(parameters, options); };
}

/// One process doing all ranks' work: gradients as emulated, the ranks' mean loss.
void emulate_step(const Scenario& scenario, torch::nn::Module& module, torch::optim::Optimizer& optimizer, int ranks,
                  int step) {
  optimizer.step([&] {
    const auto gradients = emulated_gradients(scenario, module, ranks, step);
    const auto parameters = parameters_of(module);
    for (std::size_t i = 0; i < parameters.size(); ++i) at::Tensor(parameters[i]).mutable_grad() = gradients[i].clone();
    torch::NoGradGuard no_grad;
    at::Tensor total = torch::zeros({}, at::kDouble);
    for (int rank = 0; rank < ranks; ++rank) total += scenario.loss(module, rank, step);
    return total / ranks;
  });
}

TEST_P(ReplicasTest, TrainWithAnyOptimizer) {
  const std::vector<MakeOptimizer> optimizers = {
      optimizer_of<torch::optim::SGD>(torch::optim::SGDOptions(0.1)),
      optimizer_of<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.01)),
      optimizer_of<torch::optim::Adam>(torch::optim::AdamOptions(0.01)),
      optimizer_of<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01)),
      optimizer_of<torch::optim::RMSprop>(torch::optim::RMSpropOptions(0.01)),
      optimizer_of<torch::optim::Adagrad>(torch::optim::AdagradOptions(0.01)),
      optimizer_of<torch::optim::LBFGS>(torch::optim::LBFGSOptions(0.5).max_iter(4)),
  };
  on_ranks([&](Rank& rank) {
    Scenario scenario = scenario_of<Toy>();
    const auto make_float = scenario.make;
    scenario.make = [&] {
      auto module = make_float();
      module->to(at::kDouble);
      return module;
    };
    for (std::size_t i = 0; i < optimizers.size(); ++i) {
      SCOPED_TRACE("optimizer " + std::to_string(i));
      const auto module = scenario.make();
      const auto alone = scenario.make();
      DataParallel parallel(module, rank.group());
      const auto optimizer = optimizers[i](module->parameters());
      const auto optimizer_alone = optimizers[i](alone->parameters());
      for (int step = 0; step < 4; ++step) {
        emulate_step(scenario, *alone, *optimizer_alone, rank.size(), step);
        optimizer->step([&] {
          optimizer->zero_grad();
          const at::Tensor loss = scenario.loss(*module, rank.rank(), step);
          loss.backward();
          at::Tensor mean = loss.detach().clone();
          all_reduce(mean, rank.group(), ReduceOp::mean);
          return mean;
        });
      }
      expect_close(module->parameters(), alone->parameters(), 1e-9);
      expect_same_bits_on_all_ranks(module->parameters(), rank.group());
    }
  });
}

// ---- modules that differ ------------------------------------------------------------------------------------------

struct Widths : torch::nn::Module {
  Widths(std::int64_t first, std::int64_t second) {
    register_module("one", torch::nn::Linear(4, first));
    register_module("two", torch::nn::Linear(4, second));
  }
};

class MismatchTest : public testing::Test {
 protected:
  /// Constructs on three ranks and expects the same Error on each.
  void expect_mismatch(
      const std::function<std::shared_ptr<torch::nn::Module>(int rank)>& make, const std::vector<std::string>& words,
      const std::function<DataParallelOptions(int rank)>& options = [](int) { return DataParallelOptions{}; }) {
    run_ranks(3, {}, [&](Rank& rank) {
      const auto module = make(rank.rank());
      Group group = rank.group();
      expect_error([&] { (void)DataParallel(module, group, options(rank.rank())); }, ErrorKind::mismatch, words);
      barrier(group);  // still of use
    });
  }
};

TEST_F(MismatchTest, NamesTheFirstParameterOfAnotherShapeAndTheRanks) {
  expect_mismatch([](int rank) { return std::make_shared<Widths>(5, rank == 0 ? 6 : 7); },
                  {"two.weight", "rank 0", "[6, 4]", "rank 1", "[7, 4]", "ranks 1, 2"});
  expect_mismatch([](int rank) { return std::make_shared<Widths>(rank == 2 ? 8 : 5, 6); },
                  {"one.weight", "rank 0", "[5, 4]", "rank 2", "[8, 4]"});
}

TEST_F(MismatchTest, NamesAParameterOfAnotherDtype) {
  expect_mismatch(
      [](int rank) {
        auto module = std::make_shared<Widths>(5, 6);
        if (rank == 1) module->to(at::kDouble);
        return module;
      },
      {"one.weight", "Float", "Double", "rank 1"});
}

TEST_F(MismatchTest, NamesAParameterFrozenOnOneRank) {
  expect_mismatch(
      [](int rank) {
        auto module = std::make_shared<Widths>(5, 6);
        if (rank == 1) module->named_parameters()["two.bias"].set_requires_grad(false);
        return module;
      },
      {"two.bias", "requires_grad", "rank 1"});
}

TEST_F(MismatchTest, NamesAParameterOfAnotherLayout) {
  expect_mismatch(
      [](int rank) {
        auto module = std::make_shared<torch::nn::Conv2dImpl>(3, 4, 2);
        if (rank == 2) module->weight.set_data(module->weight.contiguous(at::MemoryFormat::ChannelsLast));
        return module;
      },
      {"weight", "strides", "rank 2"});
}

TEST_F(MismatchTest, NamesWhatOneRankHasMore) {
  expect_mismatch(
      [](int rank) -> std::shared_ptr<torch::nn::Module> {
        if (rank == 0) return std::make_shared<Widths>(5, 6);
        return std::make_shared<Toy>();
      },
      {"one.weight", "first.weight"});
  expect_mismatch(
      [](int rank) {
        auto module = std::make_shared<Widths>(5, 6);
        if (rank == 2) module->register_buffer("extra", torch::zeros({3}));
        return module;
      },
      {"nothing more", "rank 2", "extra"});
}

TEST_F(MismatchTest, ComparesTheOptionsToo) {
  expect_mismatch([](int) { return std::make_shared<Toy>(); }, {"gradients_mean=true", "gradients_mean=false"},
                  [](int rank) { return DataParallelOptions{.gradients_mean = rank != 1}; });
}

TEST(DataParallelArguments, AreChecked) {
  run_ranks(2, {}, [](Rank& rank) {
    Group group = rank.group();
    const auto toy = std::make_shared<Toy>();
    expect_error([&] { (void)DataParallel(toy, group, {.bucket_bytes = 0}); }, ErrorKind::invalid_argument,
                 {"bucket_bytes", "0"});
    expect_error([&] { (void)DataParallel(std::shared_ptr<torch::nn::Module>(), group); }, ErrorKind::invalid_argument,
                 {"module", "null"});
    toy->register_parameter("wave", torch::zeros({2}, at::kComplexFloat));
    expect_error([&] { (void)DataParallel(toy, group); }, ErrorKind::unsupported, {"wave", "complex"});
    const auto sparse = std::make_shared<Toy>();
    sparse->register_buffer("graph", torch::eye(3).to_sparse());
    expect_error([&] { (void)DataParallel(sparse, group); }, ErrorKind::unsupported, {"graph", "dense"});
    const auto expanded = std::make_shared<Toy>();
    expanded->register_buffer("row", torch::zeros({3}).expand({2, 3}));
    expect_error([&] { (void)DataParallel(expanded, group); }, ErrorKind::unsupported, {"row", "expanded"});
    barrier(group);  // all refused alone, and the group is still of use
  });
}

}  // namespace
}  // namespace lockstep::test
