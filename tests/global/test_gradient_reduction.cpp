// Gradients that are reduced while backward runs, where that could go wrong.
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/mesh_state.h>

#include "placed.h"
#include "support/operators_run.h"
#include "support/ranks.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <optional>
#include <vector>

namespace lockstep {
namespace {

using test::placed;
using test::Rank;
using test::RankOptions;

/// Each gradient in a bucket of its own.
constexpr GradientReductionOptions kOneByOne{.bucket_bytes = 1, .first_bucket_bytes = 1};

void with_two_ranks(const std::function<void(Rank&, const Mesh&)>& body) {
  const RankOptions options{.group = RankOptions::test_group_options("shm")};
  test::run_ranks(2, options, [&](Rank& rank) { body(rank, Mesh(rank.group())); });
}

at::Tensor trained(const at::Tensor& values, const Mesh& mesh) {
  return placed(values, mesh, {Replicate()}).requires_grad_();
}

// A parameter's gradient may be a view of one that backward still needs.
TEST(GradientReduction, LeavesAloneWhatBackwardStillNeeds) {
  with_two_ranks([](Rank&, const Mesh& mesh) {
    torch::manual_seed(1);
    const auto input = torch::randn({6, 4});
    std::vector<at::Tensor> values{torch::randn({4, 4}), torch::randn({16})};
    for (int i = 0; i < 6; ++i) values.push_back(torch::randn({4, 4}));
    const auto gradients = [](std::vector<at::Tensor> parameters, const at::Tensor& x) {
      const auto generated = parameters[0] * 2;
      auto y = x;
      for (std::size_t i = 2; i < parameters.size(); ++i) y = y.mm(parameters[i]).tanh();
      y.mm(generated + parameters[1].view_as(generated)).sum().backward();
      std::vector<at::Tensor> result;
      for (const auto& each : parameters) result.push_back(each.grad());
      return result;
    };
    std::vector<at::Tensor> parameters;
    std::vector<at::Tensor> ordinary;
    for (const auto& each : values) {
      parameters.push_back(trained(each, mesh));
      ordinary.push_back(each.clone().requires_grad_());
    }
    reduce_gradients_in_buckets(parameters, kOneByOne);
    const auto got = gradients(parameters, placed(input, mesh, {Shard(0)}));
    const auto expected = gradients(ordinary, input);
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(torch::allclose(full(got[i]), expected[i], 1e-4, 1e-5)) << i << full(got[i]) << expected[i];
    }
  });
}

TEST(GradientReduction, OfALinearLayerIsKeptWithoutACopy) {
  with_two_ranks([](Rank&, const Mesh& mesh) {
    torch::nn::Linear layer(16, 8);
    distribute_module(*layer, mesh);
    const auto input = placed(torch::randn({4, 3, 16}), mesh, {Shard(0)});
    const auto loss = layer->forward(input).sum();
    // What autograd begins a copy with, of a gradient that does not lie as its parameter.
    EXPECT_EQ(test::operators_run([&] { loss.backward(); }).count("aten::new_empty_strided"), 0);
    EXPECT_EQ(layer->weight.grad().strides(), layer->weight.strides());
  });
}

TEST(GradientReduction, TakesATensorWithTwoNamesOnce) {
  with_two_ranks([](Rank&, const Mesh& mesh) {
    const auto input = torch::arange(8, torch::kFloat).view({4, 2});
    const auto weight = trained(torch::ones({2, 3}), mesh);
    reduce_gradients_in_buckets({weight, weight});
    for (int i = 0; i < 3; ++i) {
      reset_traffic(mesh);
      placed(input, mesh, {Shard(0)}).mm(weight).sum().backward();
      EXPECT_EQ(traffic_of(mesh).all_reduce.bytes, 6 * 4) << i;
    }
    EXPECT_TRUE(torch::equal(full(weight.grad()), input.sum(0).mul(3).unsqueeze(1).expand({2, 3})));
  });
}

TEST(GradientReduction, HeldGradientsAreSentOnce) {
  with_two_ranks([](Rank&, const Mesh& mesh) {
    torch::manual_seed(2);
    const auto batches = torch::randn({3, 4, 2});
    const auto train = [&](const std::vector<at::Tensor>& p,
                           const std::function<at::Tensor(const at::Tensor&)>& place) {
      std::vector<std::int64_t> sent;
      for (int i = 0; i < 3; ++i) {
        std::optional<HoldGradients> hold;
        if (i < 2) hold.emplace();
        if (place) reset_traffic(mesh);
        const auto x = place ? place(batches[i]) : batches[i];
        // The bias has no gradient in the last batch, the divided weight in each.
        auto y = x.mm(p[0]) + x.mm(p[2]);
        if (i < 2) y = y + p[1];
        y.pow(2).sum().backward();
        if (place) sent.push_back(traffic_of(mesh).all_reduce.bytes);
      }
      return sent;
    };
    const std::vector<at::Tensor> values{torch::randn({2, 4}), torch::randn({4}), torch::randn({2, 4})};
    std::vector<at::Tensor> ordinary;
    for (const auto& each : values) ordinary.push_back(each.clone().requires_grad_());
    train(ordinary, {});
    const std::vector<at::Tensor> parameters{trained(values[0], mesh), trained(values[1], mesh),
                                             placed(values[2], mesh, {Shard(0)}).requires_grad_()};
    reduce_gradients_in_buckets(parameters);
    const auto sent = train(parameters, [&](const at::Tensor& x) { return placed(x, mesh, {Shard(0)}); });
    EXPECT_EQ(sent, (std::vector<std::int64_t>{0, 0, (8 + 4) * 4}));
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_TRUE(torch::allclose(full(parameters[i].grad()), ordinary[i].grad(), 1e-4, 1e-5)) << i;
      EXPECT_EQ(placements_of(parameters[i].grad()), placements_of(parameters[i])) << i;
    }
  });
}

// A gradient may lie in memory that was fetched for a view: it is no view any more when it is the parameter's.
TEST(GradientReduction, GivesGradientsThatMayBeWrittenTo) {
  with_two_ranks([](Rank&, const Mesh& mesh) {
    const auto factors = torch::arange(18, torch::kFloat);
    auto weight = trained(torch::ones({3, 6}), mesh);
    reduce_gradients_in_buckets({weight});
    (weight.view({18}) * placed(factors, mesh, {Shard(0)})).sum().backward();
    weight.mutable_grad().mul_(2);
    EXPECT_TRUE(torch::equal(full(weight.grad()), factors.view({3, 6}).mul(2)));
    weight.mutable_grad().zero_();
    EXPECT_EQ(weight.grad().sum().item<float>(), 0);
  });
}

// Hooks stay with a parameter that is moved to another mesh.
TEST(GradientReduction, GoesOnOnAnotherMesh) {
  with_two_ranks([](Rank& rank, const Mesh& first) {
    torch::nn::Linear net(torch::nn::LinearOptions(2, 3).bias(false));
    const auto backward_on = [&](const Mesh& mesh, const Placements& rows) {
      const auto ones = distribute(torch::ones({4, 2}), mesh, rows);
      net->forward(ones).sum().backward();
      EXPECT_TRUE(torch::equal(full(net->weight.grad()), torch::full({3, 2}, 4.0)));
    };
    distribute_module(net, first);
    backward_on(first, {Shard(0)});
    const Mesh second(rank.group(), {1, 2});
    net->weight.set_data(distribute(torch::ones({3, 2}), second, {Replicate(), Replicate()}));
    net->weight.mutable_grad() = torch::zeros_like(net->weight);
    backward_on(second, {Replicate(), Shard(0)});
  });
}

}  // namespace
}  // namespace lockstep
