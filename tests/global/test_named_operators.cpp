// Strategies of operators while a model runs: its numbers stay those of one device, and its operators are divided as
// the strategies say.
#include <lockstep/global/dispatch/named_operators.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/mesh_state.h>
#include <lockstep/models/gpt.h>

#include "support/ranks.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using test::Rank;
using test::RankOptions;

RankOptions for_names() {
  return {.deadline = std::chrono::seconds(120), .group = RankOptions::test_group_options("shm")};
}

global::OperatorStrategies strategies(std::vector<global::OperatorStrategy> all) {
  global::OperatorStrategies given;
  for (auto& each : all) given.push_back(std::make_shared<const global::OperatorStrategy>(std::move(each)));
  return given;
}

struct TwoLayers : torch::nn::Module {
  TwoLayers() {
    fc1 = register_module("fc1", torch::nn::Linear(6, 8));
    fc2 = register_module("fc2", torch::nn::Linear(8, 4));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    hidden = fc1(x).relu();
    sum = fc2(hidden);
    return sum.softmax(-1);
  }
  torch::nn::Linear fc1{nullptr}, fc2{nullptr};
  torch::Tensor hidden, sum;
};

TEST(NamedOperators, AreDividedAsTheirStrategiesSay) {
  test::run_ranks(2, for_names(), [](Rank& rank) {
    torch::manual_seed(1);
    TwoLayers alone;
    torch::manual_seed(1);
    TwoLayers net;
    const auto in = torch::randn({4, 6});
    const auto expected = alone.forward(in);
    expected.pow(2).sum().backward();

    const Mesh mesh(rank.group());
    distribute_module(net, mesh);
    global::set_strategies(net, mesh,
                           strategies({{.module = "fc1", .op = "relu", .inputs = {{1, 2}}},
                                       {.module = "fc2", .op = "weight", .outputs = {{1, 2}}},
                                       {.module = "", .op = "softmax", .inputs = {{2, 1}}, .outputs = {{1, 1}}}}));
    for (int step = 0; step < 2; ++step) {
      net.zero_grad();
      const auto out = net.forward(distribute(in, mesh, {Replicate()}));
      EXPECT_EQ(to_string(placements_of(net.hidden)), "[Shard(1)]");
      EXPECT_EQ(to_string(placements_of(net.sum)), "[Shard(1)]");
      EXPECT_EQ(to_string(placements_of(out)), "[Replicate()]");
      out.pow(2).sum().backward();
      EXPECT_TRUE(torch::allclose(full(out.detach()), expected));
      for (std::size_t i = 0; i < net.parameters().size(); ++i) {
        EXPECT_TRUE(torch::allclose(full(net.parameters()[i].grad()), alone.parameters()[i].grad(), 1e-4, 1e-6)) << i;
      }
    }
    // Parameters stay what they are when an optimizer has written to them.
    torch::optim::SGD(net.parameters(), 0.1).step();
    net.forward(distribute(in, mesh, {Replicate()}));
    EXPECT_EQ(to_string(placements_of(net.hidden)), "[Shard(1)]");
    EXPECT_EQ(to_string(placements_of(net.sum)), "[Shard(1)]");
    // Evaluation takes the way that moves the fewest bytes.
    const torch::NoGradGuard no_grad;
    net.forward(distribute(in, mesh, {Replicate()}));
    EXPECT_EQ(to_string(placements_of(net.hidden)), "[Replicate()]");
  });
}

TEST(NamedOperators, PartsOfAttentionMayHaveTheirOwn) {
  test::run_ranks(4, for_names(), [](Rank& rank) {
    const models::GptShape shape{.vocabulary = 20, .context = 8, .layers = 2, .heads = 4, .width = 16};
    torch::manual_seed(2);
    const auto tokens = torch::randint(20, {4, 6}, torch::kLong);
    torch::manual_seed(3);
    auto alone = models::gpt(shape);
    torch::manual_seed(3);
    auto net = models::gpt(shape);
    const auto expected = alone->forward(tokens);
    expected.pow(2).mean().backward();

    const Mesh mesh(rank.group(), {2, 2}, {"data", "model"});
    distribute_module(*net, mesh);
    global::set_strategies(*net, mesh,
                           strategies({{.module = "blocks.*.attention", .op = "softmax", .inputs = {{2, 2, 1, 1}}},
                                       {.module = "blocks.1", .op = "matmul", .inputs = {{1, 2, 2, 1}, {1, 2, 1, 1}}},
                                       {.module = "blocks.0", .op = "gelu", .inputs = {{1, 2, 2}}}}));
    const auto out = net->forward(distribute(tokens, mesh, {Shard(0), Replicate()}));
    out.pow(2).mean().backward();
    EXPECT_TRUE(torch::allclose(full(out.detach()), expected, 1e-4, 1e-5));
    for (std::size_t i = 0; i < net->parameters().size(); ++i) {
      EXPECT_TRUE(torch::allclose(full(net->parameters()[i].grad()), alone->parameters()[i].grad(), 1e-3, 1e-6)) << i;
    }
  });
}

}  // namespace
}  // namespace lockstep
