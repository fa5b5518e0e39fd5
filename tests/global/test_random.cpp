// The same seed gives the same logical values for every mesh and placement: those of one device.
#include <lockstep/base/error.h>
#include <lockstep/global/factories.h>
#include <lockstep/global/global_tensor.h>

#include "placed.h"
#include "rules/all_placements.h"
#include "support/ranks.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

namespace lockstep {
namespace {

using test::placed;
using test::Rank;
using test::RankOptions;

struct Draw {
  std::string name;
  std::function<at::Tensor(at::Tensor)> run;  ///< of a tensor of zeros
};

std::vector<Draw> draws() {
  return {
      {"normal_", [](at::Tensor x) { return x.normal_(1, 2); }},
      {"uniform_", [](at::Tensor x) { return x.uniform_(-1, 1); }},
      {"bernoulli_", [](at::Tensor x) { return x.bernoulli_(0.3); }},
      {"exponential_", [](at::Tensor x) { return x.exponential_(); }},
      {"random_", [](at::Tensor x) { return x.random_(0, 100); }},
      {"two after each other", [](at::Tensor x) { return x.normal_() + torch::rand_like(x); }},
      {"randn_like", [](at::Tensor x) { return torch::randn_like(x); }},
      {"randint_like", [](at::Tensor x) { return torch::randint_like(x, 10); }},
      {"dropout", [](at::Tensor x) { return torch::dropout(x + 1, 0.4, true); }},
      {"bernoulli of probabilities", [](at::Tensor x) { return torch::bernoulli(x + 0.5); }},
      {"kaiming_uniform_", [](at::Tensor x) { return torch::nn::init::kaiming_uniform_(x); }},
      {"xavier_normal_", [](at::Tensor x) { return torch::nn::init::xavier_normal_(x); }},
      {"randn on the device",
       [](const at::Tensor& x) {
         return torch::randn({5, 3}, x.options());
       }},
      {"randperm on the device",
       [](const at::Tensor& x) { return torch::randperm(9, torch::TensorOptions(torch::kLong).device(x.device())); }},
      {"transposed", [](at::Tensor x) { return x.t().normal_(); }},
  };
}

void expect_those_of_one_device(const std::vector<int>& sizes) {
  int ranks = 1;
  for (const int size : sizes) ranks *= size;
  const RankOptions options{.deadline = std::chrono::seconds(200), .group = RankOptions::test_group_options("shm")};
  test::run_ranks(ranks, options, [&](Rank& rank) {
    const Mesh mesh(rank.group(), sizes);
    set_strict_global_ops(false);
    for (const auto& draw : draws()) {
      torch::manual_seed(7);
      const auto expected = draw.run(torch::zeros({7, 5}));
      const auto next = torch::rand({1});
      for (const auto& placements : test::on_all_axes({Replicate(), Shard(0), Shard(1)}, sizes.size())) {
        torch::manual_seed(7);
        const auto got = draw.run(placed(torch::zeros({7, 5}), mesh, placements));
        EXPECT_TRUE(torch::equal(full(got), expected)) << draw.name << " of " << to_string(placements);
        EXPECT_TRUE(torch::equal(torch::rand({1}), next)) << draw.name << " drew another number of times";
      }
    }
  });
}

TEST(GlobalRandom, OneAxis) {
  expect_those_of_one_device({2});
  expect_those_of_one_device({3});
}
TEST(GlobalRandom, TwoAxes) { expect_those_of_one_device({2, 2}); }

TEST(GlobalFactories, ByPlacements) {
  const RankOptions options{.group = RankOptions::test_group_options("shm")};
  test::run_ranks(4, options, [](Rank& rank) {
    const Mesh mesh(rank.group(), {2, 2});
    const std::vector<Placement> each{Replicate(), Shard(0), Shard(1), Partial(), Partial(ReduceOp::max)};
    for (const auto& placements : test::on_all_axes(each, 2)) {
      const auto like = [&](const at::Tensor& got, const at::Tensor& expected) {
        EXPECT_EQ(placements_of(got), placements);
        EXPECT_TRUE(torch::equal(full(got), expected)) << to_string(placements);
      };
      like(zeros({5, 3}, mesh, placements), torch::zeros({5, 3}));
      like(ones({5, 3}, mesh, placements, torch::kDouble), torch::ones({5, 3}, torch::kDouble));
      like(full({3, 1}, 4, mesh, placements, torch::kLong), torch::full({3, 1}, 4, torch::kLong));
      torch::manual_seed(3);
      const auto uniform = torch::rand({5, 3});
      const auto normal = torch::randn({5, 3});
      torch::manual_seed(3);
      like(rand({5, 3}, mesh, placements), uniform);
      like(randn({5, 3}, mesh, placements), normal);
    }
    EXPECT_TRUE(ones({2, 2}, mesh, {Shard(0), Shard(1)}, torch::requires_grad()).requires_grad());
    EXPECT_EQ(local_sizes_of(zeros({5, 3}, mesh, {Shard(0), Shard(0)})),
              (std::vector<std::int64_t>{rank.rank() == 0 ? 2 : 1, 3}));
    EXPECT_THROW(zeros({5}, mesh, {Shard(1), Replicate()}), Error);
    EXPECT_THROW(rand({5}, mesh, {Replicate()}), Error);
  });
}

}  // namespace
}  // namespace lockstep
