// Gradients with every backend, against the same work done in one process.
#include "mirrored/nets.h"
#include "mirrored/on_every_backend.h"

#include <lockstep/base/log.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/comm/group_impl.h>

#include <fstream>
#include <iterator>

namespace lockstep::test {
namespace {

using GradientsTest = OnEveryBackend;
INSTANTIATE_TEST_SUITE_P(All, GradientsTest, testing::ValuesIn(every_backend()), case_name);

TEST_P(GradientsTest, AveragesGradients) { expect_equals_one_process(scenario_of<Toy>()); }

TEST_P(GradientsTest, SumsGradients) { expect_equals_one_process(scenario_of<Toy>(), {.gradients_mean = false}); }

TEST_P(GradientsTest, SplitsIntoBucketsOfOneParameter) {
  expect_equals_one_process(scenario_of<Toy>(), {.bucket_bytes = 1, .first_bucket_bytes = 1});
}

TEST_P(GradientsTest, CountsSharedParametersOnce) {
  expect_equals_one_process(scenario_of<Shared>());
  expect_equals_one_process(scenario_of<Shared>(), {.bucket_bytes = 64, .first_bucket_bytes = 64});
}

TEST_P(GradientsTest, AcceptsParametersUnusedOnSomeRanksOrOnAll) {
  expect_equals_one_process(scenario_of<Sometimes>());
  expect_equals_one_process(scenario_of<Sometimes>(), {.bucket_bytes = 1, .first_bucket_bytes = 1});
}

TEST_P(GradientsTest, KeepsTheLayoutOfChannelsLastWeights) {
  expect_equals_one_process(scenario_of<Pictures>());
  on_ranks([](Rank& rank) {
    const auto module = std::make_shared<Pictures>();
    DataParallel parallel(module, rank.group());
    for (int step = 0; step < 2; ++step) {
      module->zero_grad(true);
      module->loss(rank.rank(), step).backward();
      EXPECT_EQ(module->conv->weight.grad().strides(), module->conv->weight.strides());
    }
  });
}

TEST_P(GradientsTest, TakesParametersOfSeveralDtypes) {
  expect_equals_one_process(scenario_of<Mixed>(), {}, 1e-2);
  expect_equals_one_process(scenario_of<Mixed>(), {.bucket_bytes = 16, .first_bucket_bytes = 16}, 1e-2);
}

TEST_P(GradientsTest, TwoRanksWithHalfABatchEqualOneWithAll) {
  on_ranks([](Rank& rank) {
    const auto scenario = scenario_of<Toy>();
    const auto module = std::dynamic_pointer_cast<Toy>(scenario.make());
    const auto alone = std::dynamic_pointer_cast<Toy>(scenario.make());
    DataParallel parallel(module, rank.group());
    torch::optim::SGD optimizer(module->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    torch::optim::SGD optimizer_alone(alone->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    for (int step = 0; step < 5; ++step) {
      const at::Tensor x = data({12, 10}, 0, step);
      const at::Tensor y = data({12, 5}, 1, step);
      const std::int64_t share = 12 / rank.size();
      const std::int64_t begin = share * rank.rank();
      optimizer.zero_grad();
      torch::mse_loss(module->forward(x.narrow(0, begin, share)), y.narrow(0, begin, share)).backward();
      optimizer.step();
      optimizer_alone.zero_grad();
      torch::mse_loss(alone->forward(x), y).backward();
      optimizer_alone.step();
    }
    expect_close(module->parameters(), alone->parameters());
  });
}

// ---- accumulation -------------------------------------------------------------------------------------------------

TEST_P(GradientsTest, AddsToExistingGradients) {
  for (const bool mean : {true, false}) {
    SCOPED_TRACE(mean ? "mean" : "sum");
    on_ranks([&](Rank& rank) {
      const auto scenario = scenario_of<Sometimes>();
      const auto module = scenario.make();
      DataParallel parallel(module, rank.group(), {.gradients_mean = mean});
      Gradients expected;
      for (int step = 0; step < 4; ++step) {
        expected = emulated_gradients(scenario, *module, rank.size(), step, mean, expected);
        scenario.loss(*module, rank.rank(), step).backward();
        expect_close(gradients_of(*module), expected);
      }
      expect_same_bits_on_all_ranks(gradients_of(*module), rank.group());
    });
  }
}

TEST_P(GradientsTest, SendsWhatAccumulatedWithoutSynchronization) {
  for (const bool mean : {true, false}) {
    SCOPED_TRACE(mean ? "mean" : "sum");
    on_ranks([&](Rank& rank) {
      const auto scenario = scenario_of<Sometimes>();
      const auto module = scenario.make();
      DataParallel parallel(module, rank.group(), {.gradients_mean = mean});
      for (int step = 0; step < 9; step += 3) {
        const auto first = emulated_gradients(scenario, *module, rank.size(), step, mean);
        const auto second = emulated_gradients(scenario, *module, rank.size(), step + 1, mean, first);
        const auto third = emulated_gradients(scenario, *module, rank.size(), step + 2, mean, second);
        module->zero_grad(true);
        {
          const auto guard = parallel.no_sync();
          scenario.loss(*module, rank.rank(), step).backward();
          const auto local = emulated_gradients(
              {scenario.make, [&](auto& net, int, int) { return scenario.loss(net, rank.rank(), step); }}, *module, 1,
              step);
          expect_close(gradients_of(*module), local);
          scenario.loss(*module, rank.rank(), step + 1).backward();
        }
        scenario.loss(*module, rank.rank(), step + 2).backward();
        expect_close(gradients_of(*module), third);
        expect_same_bits_on_all_ranks(gradients_of(*module), rank.group());
      }
    });
  }
}

TEST_P(GradientsTest, GuardsNest) {
  on_ranks([](Rank& rank) {
    const auto scenario = scenario_of<Toy>();
    const auto module = scenario.make();
    DataParallel parallel(module, rank.group());
    {
      const auto outer = parallel.no_sync();
      { const auto inner = parallel.no_sync(); }
      scenario.loss(*module, rank.rank(), 0).backward();
    }
    const auto after_first = emulated_gradients(scenario, *module, rank.size(), 0);
    const auto expected = emulated_gradients(scenario, *module, rank.size(), 1, true, after_first);
    scenario.loss(*module, rank.rank(), 1).backward();
    expect_close(gradients_of(*module), expected);
  });
}

TEST_P(GradientsTest, SynchronizesWithoutABackward) {
  on_ranks([](Rank& rank) {
    const auto scenario = scenario_of<Toy>();
    const auto module = scenario.make();
    DataParallel parallel(module, rank.group());
    for (int step = 0; step < 2; ++step) {
      module->zero_grad(true);
      const auto expected = emulated_gradients(scenario, *module, rank.size(), step);
      {
        const auto guard = parallel.no_sync();
        scenario.loss(*module, rank.rank(), step).backward();
        parallel.backward_without_data();  // nothing is sent here
      }
      parallel.backward_without_data();
      expect_close(gradients_of(*module), expected);
    }
  });
}

TEST_P(GradientsTest, ZeroedAndUndefinedGradientsStartAnew) {
  on_ranks([](Rank& rank) {
    const auto scenario = scenario_of<Toy>();
    const auto module = scenario.make();
    DataParallel parallel(module, rank.group());
    torch::optim::SGD optimizer(module->parameters(), 0.1);
    for (int step = 0; step < 6; ++step) {
      if (step % 3 == 0) optimizer.zero_grad();
      if (step % 3 == 1) module->zero_grad(false);
      if (step % 3 == 2) module->zero_grad(true);
      const auto expected = emulated_gradients(scenario, *module, rank.size(), step);
      scenario.loss(*module, rank.rank(), step).backward();
      expect_close(gradients_of(*module), expected);
    }
  });
}

TEST_P(GradientsTest, TakesGradientsThatTheProgramPutThere) {
  on_ranks([](Rank& rank) {
    const auto scenario = scenario_of<Toy>();
    const auto module = scenario.make();
    DataParallel parallel(module, rank.group());
    for (int step = 0; step < 3; ++step) {
      const auto plain = emulated_gradients(scenario, *module, rank.size(), step);
      // Each rank adds its own rank + 1, of which the mean is (size + 1) / 2; transposed to try another layout.
      Gradients expected;
      for (const auto& gradient : plain) expected.push_back(gradient + 0.5 * (rank.size() + 1));
      for (auto parameter : module->parameters()) {
        std::vector<std::int64_t> reversed(parameter.sizes().rbegin(), parameter.sizes().rend());
        parameter.mutable_grad() = torch::full(reversed, 1.0 + rank.rank()).t();
      }
      scenario.loss(*module, rank.rank(), step).backward();
      expect_close(gradients_of(*module), expected);
    }
  });
}

TEST_P(GradientsTest, LeavesGradientsOfParametersUnusedEverywhereAsTheyWere) {
  on_ranks([](Rank& rank) {
    const auto module = std::make_shared<Sometimes>();
    DataParallel parallel(module, rank.group());
    // A sum of three times 0.1 and its third need not be 0.1; and a tensor of the program's stays its own.
    for (int step = 0; step < 3; ++step) {
      const at::Tensor own = torch::full({4, 4}, 0.1F + rank.rank());
      module->never->weight.mutable_grad() = own;
      module->loss(rank.rank(), step).backward();
      EXPECT_TRUE(module->never->weight.grad().is_same(own));
      EXPECT_TRUE(torch::equal(own, torch::full({4, 4}, 0.1F + rank.rank())));
      EXPECT_FALSE(module->never->bias.grad().defined());
    }
    // In the bucket since a step that used it, and unused in the next.
    const auto loss = [&] { return module->never(data({2, 4}, rank.rank(), 9)).square().sum(); };
    module->zero_grad(true);
    loss().backward();
    const at::Tensor before = module->never->weight.grad().clone();
    const at::Tensor handle = module->never->weight.grad();
    for (int step = 0; step < 3; ++step) {
      module->loss(rank.rank(), step).backward();
      EXPECT_TRUE(torch::equal(module->never->weight.grad(), before));
      EXPECT_TRUE(module->never->weight.grad().is_same(handle));
    }
  });
}

TEST_P(GradientsTest, HoldsGradientsInOnePieceOfMemory) {
  if (world_size() == 1) GTEST_SKIP() << "one rank sends nothing, so gradients are autograd's own";
  on_ranks([](Rank& rank) {
    const auto module = std::make_shared<Toy>();
    DataParallel parallel(module, rank.group());
    std::vector<at::Tensor> first;
    for (int step = 0; step < 3; ++step) {
      module->zero_grad(step % 2 == 0);
      module->loss(rank.rank(), step).backward();
      for (std::size_t i = 0; i < 4; ++i) {
        const at::Tensor gradient = module->parameters()[i].grad();
        EXPECT_TRUE(gradient.storage().is_alias_of(module->parameters()[0].grad().storage()));
        EXPECT_FALSE(gradient.is_view()) << "optimizers detach gradients in place, which views refuse";
        if (step == 0) first.push_back(gradient);
        EXPECT_EQ(gradient.data_ptr(), first[i].data_ptr());
      }
    }
  });
}

// ---- what it costs and says -----------------------------------------------------------------------------------------

TEST_P(GradientsTest, CostsOneCollectiveAStep) {
  if (world_size() == 1) GTEST_SKIP() << "one rank sends nothing";
  on_ranks([](Rank& rank) {
    const auto count = [&](const std::function<void()>& run) {
      const auto before = rank.group().impl().begin("barrier").sequence;
      run();
      return rank.group().impl().begin("barrier").sequence - before - 1;
    };
    const auto collectives_a_step = [&](auto module) {
      DataParallel parallel(module, rank.group());
      int step = 0;
      const auto run = [&] { module->loss(rank.rank(), step++).backward(); };
      run();
      EXPECT_EQ(count(run), count(run));
      return count(run);
    };
    EXPECT_EQ(collectives_a_step(std::make_shared<Toy>()), 1U);
    EXPECT_EQ(collectives_a_step(std::make_shared<Sometimes>()), 1U)
        << "with parameters unused on some ranks and on all";
    EXPECT_EQ(collectives_a_step(std::make_shared<Pictures>()), 2U) << "its buffers follow rank 0";
    EXPECT_EQ(collectives_a_step(std::make_shared<Mixed>()), 3U) << "one for each dtype";
  });
}

TEST_P(GradientsTest, NamesUnusedParametersOnceInTheLog) {
  if (world_size() == 1) GTEST_SKIP() << "one rank sends nothing, so nothing is said of what it waits for";
  on_ranks([](Rank& rank) {
    const TemporaryFolder folder("lockstep-log");
    const auto file = folder.path() / "log";
    start_logging({.level = "debug", .file = file, .console = false});
    const auto module = std::make_shared<Sometimes>();
    DataParallel parallel(module, rank.group());
    for (int step = 0; step < 4; ++step) module->loss(rank.rank(), step).backward();
    stop_logging();
    std::ifstream stream(file);
    const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    const auto begin = text.find("no gradient reached");
    ASSERT_NE(begin, std::string::npos) << text;
    EXPECT_EQ(text.find("no gradient reached", begin + 1), std::string::npos) << text;
    EXPECT_NE(text.find("never.weight"), std::string::npos) << text;
    EXPECT_EQ(text.find("often.weight") == std::string::npos, rank.rank() % 2 == 0) << text;
    EXPECT_EQ(text.find("always.weight"), std::string::npos) << text;
    EXPECT_EQ(text.find("frozen"), std::string::npos) << text;
  });
}

}  // namespace
}  // namespace lockstep::test
