// Backwards that are not the plain one, and what happens when they fail.
#include "mirrored/nets.h"
#include "mirrored/on_every_backend.h"

#include <lockstep/base/error.h>

#include <stdexcept>
#include <utility>

namespace lockstep::test {
namespace {

using BackwardsTest = OnEveryBackend;
INSTANTIATE_TEST_SUITE_P(All, BackwardsTest, testing::ValuesIn(every_backend()), case_name);

TEST_P(BackwardsTest, RunsBackwardTwiceThroughOneGraph) {
  on_ranks([](Rank& rank) {
    const auto scenario = scenario_of<Toy>();
    const auto module = scenario.make();
    DataParallel parallel(module, rank.group());
    for (int step = 0; step < 2; ++step) {
      module->zero_grad(true);
      const auto once = emulated_gradients(scenario, *module, rank.size(), step);
      const auto twice = emulated_gradients(scenario, *module, rank.size(), step, true, once);
      const at::Tensor loss = scenario.loss(*module, rank.rank(), step);
      loss.backward({}, /*retain_graph=*/true);
      expect_close(gradients_of(*module), once);
      loss.backward();
      expect_close(gradients_of(*module), twice);
    }
  });
}

TEST_P(BackwardsTest, AveragesAGradientPenalty) {
  // The inner gradient is taken with autograd::grad, which accumulates nothing and must send nothing.
  struct Penalty : Toy {
    at::Tensor loss(int rank, int step) {
      const at::Tensor x = data({20, 10}, rank, step).requires_grad_();
      const at::Tensor out = forward(x).square().sum();
      const at::Tensor slope = torch::autograd::grad({out}, {x}, {}, true, true)[0];
      return out + slope.square().sum();
    }
  };
  expect_equals_one_process(scenario_of<Penalty>(), {}, 1e-4);
}

TEST_P(BackwardsTest, AveragesGradientsMadeWithCreateGraph) {
  on_ranks([](Rank& rank) {
    const auto scenario = scenario_of<Toy>();
    const auto module = scenario.make();
    DataParallel parallel(module, rank.group());
    Gradients expected;
    for (int step = 0; step < 3; ++step) {
      expected = emulated_gradients(scenario, *module, rank.size(), step, true, expected);
      scenario.loss(*module, rank.rank(), step).backward({}, /*retain_graph=*/true, /*create_graph=*/true);
      expect_close(gradients_of(*module), expected);
    }
  });
}

/// Runs `inside` in a backward of its own while the outer one runs, as checkpointing does.
struct Nested : torch::autograd::Function<Nested> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, torch::nn::Linear inside) {
    context->save_for_backward({x});
    context->saved_data["weight"] = inside->weight;
    context->saved_data["bias"] = inside->bias;
    return torch::linear(x, inside->weight, inside->bias);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    torch::AutoGradMode grad(true);
    const at::Tensor x = context->get_saved_variables()[0].detach().requires_grad_();
    const at::Tensor y =
        torch::linear(x, context->saved_data["weight"].toTensor(), context->saved_data["bias"].toTensor());
    y.backward(gradients[0]);
    return {x.grad(), at::Tensor()};
  }
};

struct Checkpointed : Toy {
  torch::nn::Linear inside = register_module("inside", torch::nn::Linear(10, 10));
  at::Tensor loss(int rank, int step) {
    // In odd steps nothing of the outer graph comes before the inner backward.
    const at::Tensor x = torch::relu(first(data({4, 10}, rank, step)));
    const at::Tensor y = Nested::apply(x, inside);
    return step % 2 == 0 ? second(y).square().sum() : y.square().sum();
  }
};

TEST_P(BackwardsTest, RunsABackwardInsideABackward) { expect_equals_one_process(scenario_of<Checkpointed>()); }

TEST_P(BackwardsTest, RefusesASecondGradientAfterTheFirstWasSent) {
  if (world_size() == 1) GTEST_SKIP() << "one rank sends nothing, so no gradient comes too late";
  on_ranks([](Rank& rank) {
    const auto module = std::make_shared<Checkpointed>();
    const auto loss = [&] {
      // `second` fires outside first and opens the round; `inside` fires in both inner backwards.
      const at::Tensor x = Nested::apply(module->first(data({4, 10}, rank.rank(), 0)), module->inside);
      return module->second(Nested::apply(x, module->inside)).square().sum();
    };
    DataParallel parallel(module, rank.group(), {.bucket_bytes = 1, .first_bucket_bytes = 1});
    loss().backward();  // the first round only watches
    module->zero_grad(true);
    expect_error([&] { loss().backward(); }, ErrorKind::unsupported, {"inside.", "no_sync"});
    barrier(rank.group());  // a rank that ends earlier would be the error of the others
  });
}

// ---- votes to stop ----------------------------------------------------------------------------------------------

TEST_P(BackwardsTest, AHandIsSeenByAllRanksInTheSameStep) {
  for (const bool mean : {true, false}) {
    on_ranks([&](Rank& rank) {
      const auto scenario = scenario_of<Toy>();
      const auto module = scenario.make();
      DataParallel parallel(module, rank.group(), {.gradients_mean = mean, .bucket_bytes = 1});
      for (int step = 0; step < 5; ++step) {
        SCOPED_TRACE("step " + std::to_string(step));
        // The last rank votes to stop in the first step or later, the others follow.
        if (step == (mean ? 2 : 0) && rank.rank() == rank.size() - 1) parallel.vote(1);
        if (step == 4) parallel.vote(1);
        parallel.vote(3, step == 1 && rank.rank() == 0);  // in this step alone
        module->zero_grad(true);
        const auto expected = emulated_gradients(scenario, *module, rank.size(), step, mean);
        scenario.loss(*module, rank.rank(), step).backward();
        EXPECT_EQ(parallel.votes(0), 0);
        EXPECT_EQ(parallel.votes(3), step == 1 ? 1 : 0);
        EXPECT_EQ(parallel.votes(1), step == 4 ? rank.size() : step >= (mean ? 2 : 0) ? 1 : 0);
        expect_close(gradients_of(*module), expected);
      }
    });
  }
}

// ---- failures -----------------------------------------------------------------------------------------------------

/// The identity, whose backward throws when `armed`.
struct Trap : torch::autograd::Function<Trap> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, bool armed) {
    context->saved_data["armed"] = armed;
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    if (context->saved_data["armed"].toBool()) throw std::runtime_error("the trap");
    return {gradients[0], at::Tensor()};
  }
};

/// Three layers with a trap after each and one before them. Going backward, trap 3 comes before all gradients and trap
/// 0 after all.
struct Trapped : Toy {
  torch::nn::Linear last = register_module("last", torch::nn::Linear(5, 5));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(5));
  int armed = -1;

  at::Tensor loss(int rank, int step) {
    at::Tensor x = Trap::apply(data({4, 10}, rank, step).requires_grad_(), armed == 0);
    x = Trap::apply(torch::relu(first(x)), armed == 1);
    x = Trap::apply(norm(second(x)), armed == 2);
    return Trap::apply(last(x), armed == 3).square().mean();
  }
};

void zero_in_turn(torch::nn::Module& module, int step) {
  if (step % 3 != 2) return module.zero_grad(step % 3 == 0);
  for (auto parameter : module.parameters()) parameter.mutable_grad() = torch::zeros_like(parameter);
}

TEST_P(BackwardsTest, RecoversWhenAllRanksSkipTheSameSteps) {
  for (const std::int64_t bucket_bytes : {1, 1 << 20}) {
    for (const bool mean : {true, false}) {
      on_ranks([&](Rank& rank) {
        const auto scenario = scenario_of<Trapped>();
        const auto module = std::dynamic_pointer_cast<Trapped>(scenario.make());
        DataParallel parallel(module, rank.group(), {mean, bucket_bytes, bucket_bytes});
        for (int step = 0; step < 15; ++step) {
          SCOPED_TRACE("step " + std::to_string(step));
          zero_in_turn(*module, step);
          // Each rank falls into another trap; a trap before the first gradient opens no round on any rank.
          const bool skip = step == 0 || step == 3 || step == 6 || step == 7 || step == 9 || step == 12;
          module->armed = skip ? (rank.rank() + step) % 3 : -1;
          if (step == 9) module->armed = 3;
          const at::Tensor loss = scenario.loss(*module, rank.rank(), step);
          if (skip) {
            EXPECT_THROW(loss.backward(), std::runtime_error);
            continue;
          }
          const auto expected = emulated_gradients(scenario, *module, rank.size(), step, mean);
          loss.backward();
          expect_close(gradients_of(*module), expected);
          expect_same_bits_on_all_ranks(module->buffers(), rank.group());
        }
      });
    }
  }
}

TEST_P(BackwardsTest, TellsAllRanksWhenOneGoesOnAfterAnException) {
  if (world_size() == 1) GTEST_SKIP() << "one rank has nobody to differ from";
  for (const std::int64_t bucket_bytes : {1, 1 << 20}) {
    for (const auto& [first, trap] : {std::pair(0, 1), std::pair(1, 1), std::pair(1, 0)}) {
      on_ranks([&](Rank& rank) {
        const auto scenario = scenario_of<Trapped>();
        const auto module = std::dynamic_pointer_cast<Trapped>(scenario.make());
        DataParallel parallel(module, rank.group(), {.bucket_bytes = bucket_bytes, .first_bucket_bytes = bucket_bytes});
        for (int step = 0; step < first; ++step) module->loss(rank.rank(), step).backward();
        if (rank.rank() == 1) {
          module->armed = trap;
          EXPECT_THROW(module->loss(rank.rank(), 1).backward(), std::runtime_error);
          module->armed = -1;
        }
        expect_error([&] { module->loss(rank.rank(), 1).backward(); }, ErrorKind::mismatch,
                     {"1 of " + std::to_string(rank.size()), "exception"});
        // After it all are in step again.
        for (int step = 2; step < 4; ++step) {
          module->zero_grad(step == 2);
          const auto expected = emulated_gradients(scenario, *module, rank.size(), step);
          module->loss(rank.rank(), step).backward();
          expect_close(gradients_of(*module), expected);
        }
      });
    }
  }
}

TEST_P(BackwardsTest, EndsOnAllRanksWhenOneIsKilledInTheMiddleOfAStep) {
  if (world_size() == 1) GTEST_SKIP() << "one rank has no other that could see its end";
  if (mpirun_size()) GTEST_SKIP() << "mpirun ends the whole job with the first rank";
  const auto outcomes = rank_outcomes(world_size(), rank_options(), [](Rank& rank) {
    const auto module = std::make_shared<Trapped>();
    DataParallel parallel(module, rank.group(), {.bucket_bytes = 1, .first_bucket_bytes = 1});
    module->loss(rank.rank(), 0).backward();
    const at::Tensor loss = module->loss(rank.rank(), 1);
    if (rank.rank() == 1) rank.kill_self();
    const auto begin = std::chrono::steady_clock::now();
    expect_error([&] { loss.backward(); }, ErrorKind::peer_lost, {"rank 1"});
    EXPECT_LT(std::chrono::steady_clock::now() - begin, rank.group().timeout() / 2);
  });
  for (const auto& outcome : outcomes) {
    if (outcome.rank != 1) {
      EXPECT_TRUE(outcome.ok()) << describe(outcome);
    }
  }
}

TEST_P(BackwardsTest, EndsOnAllRanksWhenOneThrowsAndLeaves) {
  if (world_size() == 1) GTEST_SKIP() << "one rank has no other that could see its end";
  if (mpirun_size()) GTEST_SKIP() << "mpirun ends the whole job with the first rank";
  const auto outcomes = rank_outcomes(world_size(), rank_options(), [](Rank& rank) {
    const auto module = std::make_shared<Trapped>();
    DataParallel parallel(module, rank.group(), {.bucket_bytes = 1, .first_bucket_bytes = 1});
    for (int step = 0; step < 3; ++step) {
      module->zero_grad(true);
      module->armed = rank.rank() == 1 && step == 2 ? 1 : -1;
      const at::Tensor loss = module->loss(rank.rank(), step);
      if (step < 2 || rank.rank() == 1) {
        loss.backward();
      } else {
        expect_error([&] { loss.backward(); }, ErrorKind::peer_lost, {"rank 1"});
      }
    }
  });
  for (const auto& outcome : outcomes) {
    if (outcome.rank != 1) {
      EXPECT_TRUE(outcome.ok()) << describe(outcome);
    }
    if (outcome.rank == 1) {
      EXPECT_NE(outcome.output.find("the trap"), std::string::npos) << describe(outcome);
    }
  }
}

TEST_P(BackwardsTest, LeavesNoHooksBehind) {
  on_ranks([](Rank& rank) {
    for (const bool mean : {true, false}) {
      const auto scenario = scenario_of<Toy>();
      const auto module = scenario.make();
      at::Tensor kept;
      {
        DataParallel parallel(module, rank.group(), {.gradients_mean = mean});
        scenario.loss(*module, rank.rank(), 0).backward();
        kept = scenario.loss(*module, rank.rank(), 1);
        DataParallel moved = std::move(parallel);
        moved.module().zero_grad(true);
        const auto expected = emulated_gradients(scenario, *module, rank.size(), 2, mean);
        scenario.loss(*module, rank.rank(), 2).backward();
        expect_close(gradients_of(*module), expected);
      }
      const Scenario alone{scenario.make, [&](auto& net, int, int) { return scenario.loss(net, rank.rank(), 1); }};
      module->zero_grad(true);
      kept.backward();
      expect_close(gradients_of(*module), emulated_gradients(alone, *module, 1, 1));
    }
  });
}

}  // namespace
}  // namespace lockstep::test
