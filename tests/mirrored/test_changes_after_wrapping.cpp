// What a program does to a module after DataParallel took it: what goes on, and what is an error.
#include "mirrored/nets.h"
#include "mirrored/on_every_backend.h"

#include <lockstep/base/error.h>

#include <sstream>
#include <utility>

namespace lockstep::test {
namespace {

using ChangesTest = OnEveryBackend;
INSTANTIATE_TEST_SUITE_P(All, ChangesTest, testing::ValuesIn(every_backend()), case_name);

template <typename Net>
std::string saved(const std::shared_ptr<Net>& module) {
  std::ostringstream out;
  torch::save(module, out);
  return out.str();
}

template <typename Net>
void load(std::shared_ptr<Net> module, const std::string& bytes) {
  std::istringstream in(bytes);
  torch::load(module, in);
}

TEST_P(ChangesTest, GradientsAreAveragedAfterWeightsWereLoaded) {
  for (const bool mean : {true, false}) {
    on_ranks([&](Rank& rank) {
      const auto scenario = scenario_of<Toy>();
      const auto module = std::make_shared<Toy>();
      DataParallel parallel(module, rank.group(), {.gradients_mean = mean, .bucket_bytes = 1});
      torch::manual_seed(9);
      const auto others = saved(std::make_shared<Toy>());
      Gradients expected;
      for (int step = 0; step < 6; ++step) {
        SCOPED_TRACE("step " + std::to_string(step));
        if (step % 2 == 1) load(module, others);
        expected = emulated_gradients(scenario, *module, rank.size(), step, mean, expected);
        if (step == 4) {
          // A step in two parts, of which the first is not reduced by itself.
          const auto quiet = parallel.no_sync();
          (scenario.loss(*module, rank.rank(), step) / 2).backward();
        }
        (scenario.loss(*module, rank.rank(), step) / (step == 4 ? 2 : 1)).backward();
        expect_close(gradients_of(*module), expected, 1e-4);
        expect_same_bits_on_all_ranks(gradients_of(*module), rank.group());
      }
    });
  }
}

TEST_P(ChangesTest, WeightsLoadedOnSomeRanksOnlyAreAnError) {
  if (world_size() == 1) GTEST_SKIP() << "one rank is all ranks";
  on_ranks([](Rank& rank) {
    const auto module = std::make_shared<Toy>();
    DataParallel parallel(module, rank.group());
    module->loss(rank.rank(), 0).backward();
    if (rank.rank() == 0) load(module, saved(module));
    expect_error([&] { module->loss(rank.rank(), 1).backward(); }, ErrorKind::mismatch, {"on 1 of", "load weights"});
  });
}

TEST_P(ChangesTest, AnotherDtypeIsAnError) {
  if (world_size() == 1) GTEST_SKIP() << "one rank reduces nothing";
  on_ranks([](Rank& rank) {
    const auto module = std::make_shared<Toy>();
    DataParallel parallel(module, rank.group());
    module->loss(rank.rank(), 0).backward();
    module->zero_grad(true);
    module->to(at::kDouble);
    expect_error([&] { module->loss(rank.rank(), 1).backward(); }, ErrorKind::invalid_argument,
                 {"first.", "float32", "float64", "new DataParallel"});
  });
}

TEST_P(ChangesTest, AGradientForAFrozenParameterIsAnError) {
  if (world_size() == 1) GTEST_SKIP() << "one rank reduces nothing";
  on_ranks([](Rank& rank) {
    const auto module = std::make_shared<Toy>();
    module->second->weight.requires_grad_(false);
    DataParallel parallel(module, rank.group());
    EXPECT_FALSE(module->second->weight.requires_grad());
    module->loss(rank.rank(), 0).backward();
    module->second->weight.requires_grad_(true);
    {
      const auto quiet = parallel.no_sync();
      module->loss(rank.rank(), 1).backward();
    }
    expect_error([&] { module->loss(rank.rank(), 1).backward(); }, ErrorKind::invalid_argument,
                 {"second.weight", "did not require a gradient"});
  });
}

TEST_P(ChangesTest, ANewLayerIsAnError) {
  if (world_size() == 1) GTEST_SKIP() << "one rank reduces nothing";
  on_ranks([](Rank& rank) {
    const auto module = std::make_shared<torch::nn::SequentialImpl>(torch::nn::Linear(4, 4));
    const auto step = [&] { module->forward(data({2, 4}, rank.rank(), 0)).sum().backward(); };
    DataParallel parallel(module, rank.group());
    step();
    module->push_back(torch::nn::Linear(4, 4));
    expect_error(step, ErrorKind::invalid_argument, {"had 2 parameters", "has 4 now"});
  });
}

TEST_P(ChangesTest, ModelsInAnotherOrderOnOneRankAreAnError) {
  if (world_size() == 1) GTEST_SKIP() << "one rank reduces nothing";
  on_ranks([](Rank& rank) {
    const auto a = std::make_shared<Toy>();
    const auto b = std::make_shared<Toy>();
    DataParallel parallel_a(a, rank.group());
    DataParallel parallel_b(b, rank.group());
    const auto both = [&](Toy& first, Toy& second) {
      const auto y = first.loss(rank.rank(), 0);
      (y + second.loss(rank.rank(), 0)).backward();
    };
    both(*a, *b);
    both(*b, *a);
    expect_error([&] { rank.rank() == 0 ? both(*a, *b) : both(*b, *a); }, ErrorKind::mismatch,
                 {"different DataParallel objects", "same order"});
  });
}

TEST_P(ChangesTest, AModuleCanBeTakenAgain) {
  on_ranks([](Rank& rank) {
    auto scenario = scenario_of<Toy>();
    scenario.make = [make = scenario.make] {
      auto toy = make();
      toy->to(at::kDouble);
      return toy;
    };
    const auto module = std::make_shared<Toy>();
    module->first->bias.requires_grad_(false);
    { DataParallel before(module, rank.group()); }
    module->to(at::kDouble);
    module->first->bias.requires_grad_(true);
    DataParallel parallel(module, rank.group());
    const auto expected = emulated_gradients(scenario, *module, rank.size(), 0);
    scenario.loss(*module, rank.rank(), 0).backward();
    expect_close(gradients_of(*module), expected);
  });
}

}  // namespace
}  // namespace lockstep::test
