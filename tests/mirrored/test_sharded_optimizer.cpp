// An optimizer in shards, against the same optimizer whole on every rank.
#include "mirrored/nets.h"
#include "mirrored/on_every_backend.h"

#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/mirrored/data_parallel.h>

namespace lockstep::test {
namespace {

using ShardedOptimizerTest = OnEveryBackend;
INSTANTIATE_TEST_SUITE_P(All, ShardedOptimizerTest, testing::ValuesIn(every_backend()), case_name);

/// Wide enough for several pieces a rank.
struct Wide : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(300, 401));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(401, 3));

  at::Tensor loss(int rank, int step) { return second(torch::relu(first(data({2, 300}, rank, step)))).square().mean(); }
};

template <typename Optimizer, typename Options>
void expect_same_training(const Scenario& scenario, Rank& rank, const Options& options, double tolerance = 0) {
  const auto whole = scenario.make();
  const auto sharded = scenario.make();
  DataParallel parallel_whole(whole, rank.group());
  DataParallel parallel(sharded, rank.group());
  Optimizer optimizer_whole(parameters_of(*whole), options);
  ShardedOptimizer<Optimizer> optimizer(parallel, options);
  for (int step = 0; step < 6; ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    // Zeroed and removed gradients are different things to an optimizer with momentum.
    const bool to_none = step != 3;
    whole->zero_grad(to_none);
    optimizer.zero_grad(to_none);
    scenario.loss(*whole, rank.rank(), step).backward();
    scenario.loss(*sharded, rank.rank(), step).backward();
    expect_same_bits_on_all_ranks(gradients_of(*sharded), rank.group());
    optimizer_whole.step();
    optimizer.step();
    const auto expected = parameters_of(*whole);
    const auto actual = parameters_of(*sharded);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(actual[i].strides(),
                whole->parameters()[i].is_non_overlapping_and_dense() ? expected[i].strides() : actual[i].strides());
      if (tolerance == 0) {
        EXPECT_TRUE(torch::equal(actual[i], expected[i])) << "parameter " << i;
      }
    }
    expect_close(actual, expected, tolerance == 0 ? 1e-7 : tolerance);
    expect_same_bits_on_all_ranks(actual, rank.group());
  }
}

torch::optim::SGDOptions momentum() { return torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(1e-2); }

TEST_P(ShardedOptimizerTest, EqualsTheWholeOneBitForBit) {
  on_ranks([](Rank& rank) {
    expect_same_training<torch::optim::SGD>(scenario_of<Toy>(), rank, momentum());
    expect_same_training<torch::optim::SGD>(scenario_of<Wide>(), rank, momentum().nesterov(true));
    expect_same_training<torch::optim::SGD>(scenario_of<Pictures>(), rank, torch::optim::SGDOptions(0.1));
  });
}

TEST_P(ShardedOptimizerTest, LeavesUnusedParametersAlone) {
  on_ranks([](Rank& rank) {
    expect_same_training<torch::optim::SGD>(scenario_of<Sometimes>(), rank, momentum());
    expect_same_training<torch::optim::SGD>(scenario_of<Shared>(), rank, momentum());
  });
}

TEST_P(ShardedOptimizerTest, TakesSeveralDtypes) {
  on_ranks([](Rank& rank) { expect_same_training<torch::optim::SGD>(scenario_of<Mixed>(), rank, momentum(), 1e-2); });
}

TEST_P(ShardedOptimizerTest, WorksWithOtherOptimizers) {
  on_ranks([](Rank& rank) {
    expect_same_training<torch::optim::Adam>(scenario_of<Wide>(), rank, torch::optim::AdamOptions(1e-2), 1e-6);
    expect_same_training<torch::optim::AdamW>(scenario_of<Toy>(), rank, torch::optim::AdamWOptions(1e-2), 1e-6);
    expect_same_training<torch::optim::RMSprop>(scenario_of<Toy>(), rank, torch::optim::RMSpropOptions(1e-2), 1e-6);
    expect_same_training<torch::optim::Adagrad>(scenario_of<Toy>(), rank, torch::optim::AdagradOptions(1e-2), 1e-6);
  });
}

TEST_P(ShardedOptimizerTest, GathersAndDividesWhatAnOptimizerRemembers) {
  on_ranks([](Rank& rank) {
    const auto module = scenario_of<Wide>().make();
    DataParallel parallel(module, rank.group());
    ParameterShards shards(parallel);
    const auto& parameters = shards.parameters();
    std::vector<at::Tensor> wanted;
    for (const auto& each : parameters) wanted.push_back(torch::arange(each.numel()).to(at::kFloat).view(each.sizes()));
    wanted[1].reset();  // was never updated
    const auto parts = shards.parts(wanted);
    ASSERT_EQ(parts.size(), shards.pieces().size());
    const auto whole = shards.whole(parts);
    ASSERT_EQ(whole.size(), wanted.size());
    EXPECT_FALSE(whole[1].defined());
    for (const std::size_t i : {0, 2, 3}) EXPECT_TRUE(torch::equal(whole[i], wanted[i])) << i;
  });
}

TEST_P(ShardedOptimizerTest, NamesAParameterWhoseMemoryWasReplaced) {
  on_ranks([](Rank& rank) {
    const auto module = std::dynamic_pointer_cast<Wide>(scenario_of<Wide>().make());
    DataParallel parallel(module, rank.group());
    ShardedOptimizer<torch::optim::SGD> optimizer(parallel, momentum());
    module->loss(rank.rank(), 0).backward();
    optimizer.step();
    module->second->weight.set_data(module->second->weight.data().clone());
    module->loss(rank.rank(), 1).backward();
    try {
      optimizer.step();
      ADD_FAILURE() << "went on without the parameter";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      EXPECT_NE(std::string(error.what()).find("second.weight"), std::string::npos) << error.what();
    }
  });
}

TEST_P(ShardedOptimizerTest, GroupsOfParametersHaveTheirOwnPieces) {
  on_ranks([](Rank& rank) {
    const auto module = std::dynamic_pointer_cast<Wide>(scenario_of<Wide>().make());
    DataParallel parallel(module, rank.group());
    ParameterShards shards(parallel);
    const auto one = shards.pieces_of({module->first->weight, module->first->bias});
    const auto two = shards.pieces_of({module->second->weight, module->second->bias});
    EXPECT_EQ(one.size() + two.size(), shards.pieces().size());
    std::int64_t elements = 0;
    for (const auto& piece : one) elements += piece.numel();
    for (const auto& piece : two) elements += piece.numel();
    auto sum = torch::full({1}, elements, torch::kLong);
    all_reduce(sum, rank.group());
    EXPECT_EQ(sum.item<std::int64_t>(), 300 * 401 + 401 + 401 * 3 + 3);
  });
}

}  // namespace
}  // namespace lockstep::test
