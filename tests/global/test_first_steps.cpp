// One way through the whole: tensors, operators, backward and an optimizer.
#include <lockstep/global/global_tensor.h>

#include "support/ranks.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using test::Rank;
using test::RankOptions;
using test::run_ranks;

RankOptions on_shm() { return {.group = RankOptions::test_group_options("shm")}; }

TEST(GlobalFirstSteps, ElementwiseAndProducts) {
  run_ranks(2, on_shm(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    torch::manual_seed(1);
    const auto a = torch::randn({5, 6});
    const auto b = torch::randn({6, 4});
    const auto x = distribute(a, mesh, {Shard(0)});
    const auto w = distribute(b, mesh, {Shard(1)});
    EXPECT_EQ(describe(x), rank.rank() == 0 ? "float32[5, 6] on 2 (0): [Shard(0)], here [3, 6]"
                                            : "float32[5, 6] on 2 (0): [Shard(0)], here [2, 6]");
    EXPECT_TRUE(torch::equal(full(x + 1), a + 1));
    EXPECT_TRUE(torch::allclose(full(x.mm(w)), a.mm(b), 1e-5, 1e-6));
    const auto k = redistribute(x, {Shard(1)}).mm(redistribute(w, {Shard(0)}));
    EXPECT_EQ(to_string(placements_of(k)), "[Partial(sum)]");
    EXPECT_TRUE(torch::allclose(full(k), a.mm(b), 1e-5, 1e-6));
    EXPECT_TRUE(torch::allclose(full(x.mean()), a.mean()));
    EXPECT_TRUE(torch::allclose(x.sum().cpu(), a.sum()));
    EXPECT_NEAR(x.sum().item<double>(), a.sum().item<double>(), 1e-5);
  });
}

TEST(GlobalFirstSteps, ATrainedNetworkIsThatOfOneDevice) {
  run_ranks(2, on_shm(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    torch::manual_seed(1);
    std::vector<torch::Tensor> plain{torch::randn({8, 16}), torch::randn({16}), torch::randn({16, 3})};
    const std::vector<Placements> plans{{Shard(1)}, {Shard(0)}, {Shard(0)}};
    std::vector<torch::Tensor> global;
    for (std::size_t i = 0; i < plain.size(); ++i) {
      plain[i].requires_grad_();
      global.push_back(distribute(plain[i].detach(), mesh, plans[i]).requires_grad_());
    }
    const auto x = torch::randn({6, 8});
    const auto y = torch::randn({6, 3});
    const auto gx = distribute(x, mesh, {Replicate()});
    const auto gy = distribute(y, mesh, {Replicate()});
    torch::optim::SGD plain_sgd(plain, torch::optim::SGDOptions(0.01).momentum(0.9));
    torch::optim::SGD global_sgd(global, torch::optim::SGDOptions(0.01).momentum(0.9));
    for (int step = 0; step < 3; ++step) {
      const auto step_of = [](std::vector<torch::Tensor>& p, const torch::Tensor& in, const torch::Tensor& want,
                              torch::optim::SGD& sgd) {
        sgd.zero_grad();
        auto loss = torch::mse_loss(torch::relu(torch::addmm(p[1], in, p[0])).mm(p[2]), want);
        loss.backward();
        sgd.step();
        return loss;
      };
      const auto expected = step_of(plain, x, y, plain_sgd);
      const auto got = step_of(global, gx, gy, global_sgd);
      EXPECT_NEAR(got.item<double>(), expected.item<double>(), 1e-4 * std::abs(expected.item<double>()));
    }
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_TRUE(torch::allclose(full(global[i].detach()), plain[i].detach(), 1e-4, 1e-5)) << i;
      EXPECT_EQ(placements_of(global[i]), plans[i]);
    }
  });
}

TEST(GlobalFirstSteps, AModuleIsDistributedInPlace) {
  run_ranks(2, on_shm(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    torch::manual_seed(3);
    const auto make = [] {
      return torch::nn::Sequential(torch::nn::Linear(8, 16), torch::nn::ReLU(), torch::nn::Linear(16, 5));
    };
    auto plain = make();
    torch::manual_seed(3);
    auto global = make();
    const auto weight = global->ptr<torch::nn::LinearImpl>(0)->weight;
    distribute_module(global, mesh, {{"0.*", {Shard(0)}}});
    EXPECT_EQ(to_string(placements_of(weight)), "[Shard(0)]") << "other handles to a parameter see it, too";
    torch::optim::Adam plain_adam(plain->parameters(), 0.01);
    torch::optim::Adam global_adam(global->parameters(), 0.01);
    for (int step = 0; step < 4; ++step) {
      const auto x = torch::randn({6, 8});
      const auto y = torch::randint(5, {6});
      plain_adam.zero_grad();
      torch::mse_loss(plain->forward(x), torch::one_hot(y, 5).to(torch::kFloat)).backward();
      plain_adam.step();
      global_adam.zero_grad();
      const auto gx = distribute(x, mesh, {Shard(0)}, Source::same_everywhere);
      const auto gy = distribute(torch::one_hot(y, 5).to(torch::kFloat), mesh, {Shard(0)}, Source::same_everywhere);
      torch::mse_loss(global->forward(gx), gy).backward();
      for (const auto& p : global->named_parameters())
        EXPECT_EQ(placements_of(p.value().grad()), placements_of(p.value())) << p.key();
      global_adam.step();
    }
    const auto expected = plain->named_parameters();
    for (const auto& p : global->named_parameters()) {
      EXPECT_TRUE(torch::allclose(full(p.value().detach()), expected[p.key()].detach(), 1e-4, 1e-5)) << p.key();
    }
  });
}

TEST(GlobalFirstSteps, APatternForALayerLeavesCountersReplicated) {
  run_ranks(2, on_shm(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    const auto make = [] {
      torch::manual_seed(3);
      return torch::nn::Sequential(torch::nn::Linear(4, 6), torch::nn::BatchNorm1d(6), torch::nn::Linear(6, 2));
    };
    auto plain = make();
    auto global = make();
    global->ptr(2)->register_buffer("one", torch::ones({1, 4}, torch::kLong));
    distribute_module(global, mesh, {{"1.*", {Shard(0)}}, {"2.*", {Shard(0)}}});
    const auto buffers = global->named_buffers();
    EXPECT_EQ(placements_of(buffers["1.num_batches_tracked"]), Placements{Replicate()});
    EXPECT_EQ(placements_of(buffers["2.one"]), Placements{Replicate()}) << "one row on two ranks";
    EXPECT_EQ(placements_of(buffers["1.running_mean"]), Placements{Shard(0)});
    EXPECT_EQ(placements_of(global->named_parameters()["1.weight"]), Placements{Shard(0)});
    for (int step = 0; step < 3; ++step) {
      const auto x = torch::randn({6, 4});
      plain->forward(x);
      global->forward(distribute(x, mesh, {Shard(0)}, Source::same_everywhere));
    }
    for (const auto* name : {"1.num_batches_tracked", "1.running_mean", "1.running_var"}) {
      EXPECT_TRUE(torch::allclose(full(buffers[name]).to(torch::kFloat), plain->named_buffers()[name].to(torch::kFloat),
                                  1e-5, 1e-6))
          << name;
    }
    torch::nn::ParameterList wrong;
    wrong->append(torch::ones({}));
    EXPECT_THROW(distribute_module(wrong, mesh, {{"*", {Shard(0)}}}), Error) << "a parameter is not left aside";
  });
}

}  // namespace
}  // namespace lockstep
