// Batch norms of a divided batch, against one process with the whole batch.
#include "mirrored/nets.h"
#include "mirrored/on_every_backend.h"

#include <numeric>

namespace lockstep::test {
namespace {

constexpr DataParallelOptions kSynchronized{.sync_batch_norm = true};

/// Batch norm of 4 and of 2 dimensions, the second without a weight.
struct Normed : torch::nn::Module {
  torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 6, 3).bias(false)));
  torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d(6));
  torch::nn::Linear fc = register_module("fc", torch::nn::Linear(6, 4));
  torch::nn::BatchNorm1d last =
      register_module("last", torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(4).affine(false)));

  at::Tensor forward(const at::Tensor& x) {
    return last(fc(torch::relu(norm(conv(x))).mean(at::IntArrayRef{2, 3}))).tanh();
  }
};

std::shared_ptr<Normed> make_normed() {
  torch::manual_seed(11);
  auto module = std::make_shared<Normed>();
  module->to(torch::kDouble);
  return module;
}

/// The pictures of each rank: different numbers, none on the last of several.
std::vector<std::int64_t> shares(int ranks) {
  std::vector<std::int64_t> counts;
  for (int rank = 0; rank < ranks; ++rank) counts.push_back(rank > 0 && rank + 1 == ranks ? 0 : 3 + 2 * rank);
  return counts;
}

/// The sum over the pictures, so that it makes no difference which rank has them.
at::Tensor loss_of(Normed& module, const at::Tensor& pictures) {
  return (module.forward(pictures) * torch::arange(1.0, 5.0, torch::kDouble)).pow(2).sum();
}

using SynchronizedBatchNormsTest = OnEveryBackend;
INSTANTIATE_TEST_SUITE_P(All, SynchronizedBatchNormsTest, testing::ValuesIn(every_backend()), case_name);

TEST_P(SynchronizedBatchNormsTest, TrainAsOneProcessWithAllPictures) {
  on_ranks([](Rank& rank) {
    const auto counts = shares(rank.size());
    const auto before = std::accumulate(counts.begin(), counts.begin() + rank.rank(), std::int64_t{0});
    const auto all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const auto module = make_normed();
    const auto alone = make_normed();
    DataParallel parallel(module, rank.group(), {.gradients_mean = false, .sync_batch_norm = true});
    torch::optim::SGD optimizer(module->parameters(), 0.05);
    torch::optim::SGD optimizer_alone(alone->parameters(), 0.05);
    for (int step = 0; step < 4; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      const auto pictures = data({all, 3, 7, 7}, 0, step, torch::kDouble) + 5;
      const auto mine = pictures.narrow(0, before, counts[static_cast<std::size_t>(rank.rank())]);
      optimizer.zero_grad();
      optimizer_alone.zero_grad();
      loss_of(*module, mine).backward();
      loss_of(*alone, pictures).backward();
      expect_close(gradients_of(*module), gradients_of(*alone), 1e-9);
      optimizer.step();
      optimizer_alone.step();
    }
    expect_close(module->parameters(), alone->parameters(), 1e-9);
    expect_close(module->buffers(), alone->buffers(), 1e-9);
    expect_same_bits_on_all_ranks(module->buffers(), rank.group());
    EXPECT_EQ(module->norm->num_batches_tracked.item<int>(), 4);
  });
}

TEST_P(SynchronizedBatchNormsTest, EvaluateWithoutRendezvous) {
  on_ranks([](Rank& rank) {
    const auto module = make_normed();
    DataParallel parallel(module, rank.group(), kSynchronized);
    module->forward(data({4, 3, 7, 7}, rank.rank(), 0, torch::kDouble));
    const auto trained = module->norm->running_mean.clone();
    module->eval();
    if (rank.rank() == 0) module->forward(data({4, 3, 7, 7}, 0, 1, torch::kDouble));  // the others do not come
    EXPECT_TRUE(module->norm->running_mean.equal(trained));
  });
}

TEST_P(SynchronizedBatchNormsTest, AreLibtorchsAgainAfterwards) {
  on_ranks([](Rank& rank) {
    const auto module = make_normed();
    const auto alone = make_normed();
    { const DataParallel parallel(module, rank.group(), kSynchronized); }
    const DataParallel parallel(module, rank.group());  // and nothing is left of the other
    const auto pictures = data({4 + rank.rank(), 3, 7, 7}, rank.rank(), 0, torch::kDouble);
    EXPECT_TRUE(module->forward(pictures).equal(alone->forward(pictures)));
  });
}

TEST_P(SynchronizedBatchNormsTest, AccumulateWithoutGradientsTravelling) {
  on_ranks([](Rank& rank) {
    const auto module = make_normed();
    const auto alone = make_normed();
    DataParallel parallel(module, rank.group(), {.gradients_mean = false, .sync_batch_norm = true});
    for (int batch = 0; batch < 2; ++batch) {
      std::optional<DataParallel::NoSync> quiet;
      if (batch == 0) quiet.emplace(parallel);
      const auto pictures = data({3 * rank.size(), 3, 7, 7}, 0, batch, torch::kDouble);
      loss_of(*module, pictures.narrow(0, 3 * rank.rank(), 3)).backward();
      loss_of(*alone, pictures).backward();
    }
    expect_close(gradients_of(*module), gradients_of(*alone), 1e-9);
  });
}

// Those of another dtype than their input, as under autocast.
TEST_P(SynchronizedBatchNormsTest, TakeNarrowInputs) {
  on_ranks([](Rank& rank) {
    auto norm = torch::nn::BatchNorm2d(5);
    auto alone = torch::nn::BatchNorm2d(5);
    DataParallel parallel(norm, rank.group(), {.gradients_mean = false, .sync_batch_norm = true});
    const auto pictures = (data({2 * rank.size(), 5, 4, 4}, 0, 0) + 1).to(torch::kBFloat16);
    const auto mine = pictures.narrow(0, 2 * rank.rank(), 2).clone().requires_grad_();
    const auto whole = pictures.to(torch::kFloat).requires_grad_();
    const auto output = norm(mine);
    EXPECT_EQ(output.scalar_type(), torch::kBFloat16);
    output.to(torch::kFloat).pow(3).sum().backward();
    alone(whole).pow(3).sum().backward();
    expect_close({norm->running_mean, norm->running_var}, {alone->running_mean, alone->running_var}, 1e-2);
    expect_close({mine.grad().to(torch::kFloat)}, {whole.grad().narrow(0, 2 * rank.rank(), 2)}, 0.1);
  });
}

TEST(SynchronizedBatchNorms, SayWhatTheyCannotDo) {
  run_ranks(2, {}, [](Rank& rank) {
    struct Bare : torch::nn::Module {
      torch::nn::BatchNorm2d norm = register_module(
          "bare", torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(3).affine(false).track_running_stats(false)));
      torch::nn::Linear fc = register_module("fc", torch::nn::Linear(2, 2));
    };
    const auto bare = std::make_shared<Bare>();
    expect_error([&] { (void)DataParallel(bare, rank.group(), kSynchronized); }, ErrorKind::unsupported,
                 {"\"bare\"", "track_running_stats(true)"});
    const auto module = make_normed();
    const DataParallel parallel(module, rank.group(), kSynchronized);
    expect_error([&] { (void)DataParallel(module, rank.group(), kSynchronized); }, ErrorKind::invalid_argument,
                 {"another DataParallel", "on this rank"});
    const auto weight = module->norm->weight;
    expect_error(
        [&] {
          torch::autograd::grad({module->forward(data({3, 3, 7, 7}, rank.rank(), 0, torch::kDouble)).sum()}, {weight},
                                {}, true,
                                /*create_graph=*/true);
        },
        ErrorKind::unsupported, {"create_graph"});
  });
}

/// A gradient of the input on each rank, of a loss that is summed over all pictures.
at::Tensor gradient_of(torch::nn::BatchNorm2d& norm, const at::Tensor& pictures) {
  const auto input = pictures.clone(at::MemoryFormat::Preserve).requires_grad_();
  const auto loss = norm(input).pow(3).sum();
  loss.backward({}, /*retain_graph=*/true);
  loss.backward();
  return input.grad();
}

TEST(SynchronizedBatchNorms, TakeMemoryFormatsFrozenWeightsAndAveragesOverAllSteps) {
  run_ranks(2, {}, [](Rank& rank) {
    const auto options = torch::nn::BatchNorm2dOptions(5).momentum(c10::nullopt);
    auto norm = torch::nn::BatchNorm2d(options);
    auto alone = torch::nn::BatchNorm2d(options);
    for (auto* each : {&norm, &alone}) {
      (*each)->to(torch::kDouble);
      (*each)->weight.set_requires_grad(false);
    }
    std::optional<DataParallel> first;
    first.emplace(norm, rank.group(), DataParallelOptions{.gradients_mean = false, .sync_batch_norm = true});
    const DataParallel parallel = std::move(*first);
    first.reset();
    for (const int step : {0, 1, 2}) {
      const auto pictures = data({4, 5, 3, 3}, 0, step, torch::kDouble).contiguous(at::MemoryFormat::ChannelsLast);
      const auto mine = pictures.narrow(0, 2 * rank.rank(), 2);
      norm->zero_grad(true);
      alone->zero_grad(true);
      const auto found = gradient_of(norm, mine);
      EXPECT_TRUE(found.is_contiguous(at::MemoryFormat::ChannelsLast));
      expect_close({found}, {gradient_of(alone, pictures).narrow(0, 2 * rank.rank(), 2)}, 1e-9);
      expect_close({norm->bias.grad()}, {alone->bias.grad()}, 1e-9);
      EXPECT_FALSE(norm->weight.grad().defined());
    }
    expect_close({norm->running_mean, norm->running_var}, {alone->running_mean, alone->running_var}, 1e-9);
  });
}

TEST(SynchronizedBatchNorms, MeetInInferenceModeToo) {
  run_ranks(2, {}, [](Rank& rank) {
    auto norm = torch::nn::BatchNorm1d(3);
    auto alone = torch::nn::BatchNorm1d(3);
    const DataParallel parallel(norm, rank.group(), kSynchronized);
    const auto all = data({6, 3}, 0, 0);
    {
      const c10::InferenceMode inference;
      norm(all.narrow(0, 3 * rank.rank(), 3));
    }
    alone(all);
    expect_close({norm->running_mean, norm->running_var}, {alone->running_mean, alone->running_var}, 1e-5);
  });
}

TEST(SynchronizedBatchNorms, AreThoseOfTheModuleInEveryDtypeAndNotThoseOfCopies) {
  run_ranks(2, {}, [](Rank& rank) {
    auto norm = torch::nn::BatchNorm1d(3);
    auto alone = torch::nn::BatchNorm1d(3);
    std::optional<DataParallel> parallel(std::in_place, norm, rank.group(), kSynchronized);
    const auto copy = std::dynamic_pointer_cast<torch::nn::BatchNorm1dImpl>(norm->clone());
    if (rank.rank() == 0) copy->forward(data({4, 3}, 0, 0));  // the others do not come
    for (auto* each : {&norm, &alone}) (*each)->to(torch::kDouble);
    const auto whole = data({6, 3}, 0, 0, torch::kDouble).requires_grad_();
    const auto mine = whole.detach().narrow(0, 3 * rank.rank(), 3).clone().requires_grad_();
    const auto loss = norm(mine).pow(3).sum();
    parallel.reset();  // after a forward that is synchronized, backward is, too
    loss.backward();
    alone(whole).pow(3).sum().backward();
    expect_close({mine.grad()}, {whole.grad().narrow(0, 3 * rank.rank(), 3)}, 1e-9);
    expect_close({norm->running_mean, norm->running_var}, {alone->running_mean, alone->running_var}, 1e-9);
  });
}

TEST(SynchronizedBatchNorms, SynchronizingBuffersTakesRankZerosAllTheSame) {
  run_ranks(2, {}, [](Rank& rank) {
    auto norm = torch::nn::BatchNorm1d(3);
    DataParallel parallel(norm, rank.group(), kSynchronized);
    if (rank.rank() == 0) norm->running_mean.fill_(7);
    parallel.synchronize_buffers();
    EXPECT_EQ(norm->running_mean[1].item<float>(), 7);
  });
}

TEST(SynchronizedBatchNorms, WhatDoesNotFitIsAnErrorAndNothingIsWritten) {
  run_ranks(2, {}, [](Rank& rank) {
    auto norm = torch::nn::BatchNorm1d(4);
    const DataParallel parallel(norm, rank.group(), kSynchronized);
    EXPECT_THROW(norm(data({5, 3}, rank.rank(), 0)), c10::Error);
    const auto call = [&](std::int64_t pictures) {
      return torch::batch_norm(torch::ones({pictures, 4}), norm->weight, norm->bias, norm->running_mean,
                               norm->running_var, true, 0.1, 1e-5, false);
    };
    call(0);
    EXPECT_TRUE(norm->running_var.equal(torch::ones({4}))) << "nothing was seen";
    expect_error([&] { call(rank.rank() == 0 ? 1 : 0); }, ErrorKind::invalid_argument, {"more than one value"});
    EXPECT_TRUE(norm->running_var.equal(torch::ones({4})));
  });
}

TEST(SynchronizedBatchNorms, AllRanksHearThatOneSynchronizesThemAlready) {
  run_ranks(2, {}, [](Rank& rank) {
    const auto module = make_normed();
    std::optional<DataParallel> before(std::in_place, module, rank.group(), kSynchronized);
    if (rank.rank() == 0) before.reset();
    expect_error([&] { (void)DataParallel(module, rank.group(), kSynchronized); }, ErrorKind::invalid_argument,
                 {rank.rank() == 0 ? "on another rank" : "on this rank"});
    before.reset();
    const DataParallel after(module, rank.group(), kSynchronized);
  });
}

TEST(SynchronizedBatchNorms, AllRanksMustAskForThem) {
  run_ranks(2, {}, [](Rank& rank) {
    expect_error([&] { (void)DataParallel(make_normed(), rank.group(), {.sync_batch_norm = rank.rank() == 1}); },
                 ErrorKind::mismatch, {"sync_batch_norm=false", "sync_batch_norm=true"});
  });
}

}  // namespace
}  // namespace lockstep::test
