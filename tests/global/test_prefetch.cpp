// Parameters that are divided (ZeRO stage 3) are gathered before they are needed, a bounded number at a time, and the
// numbers stay the same to the last bit.
#include <lockstep/global/dispatch/prefetch.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/models/picture_models.h>

#include "support/ranks.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using test::Rank;
using test::RankOptions;

RankOptions for_prefetching() {
  return {.deadline = std::chrono::seconds(120), .group = RankOptions::test_group_options("shm")};
}

struct PrefetchedRun {
  std::vector<torch::Tensor> parameters;
  std::vector<float> losses;
  global::PrefetchCounts counts;
  TrafficCount traffic;
};

constexpr int kPrefetchedSteps = 4;

/// Three layers with uneven parts, with less weights than inputs so that weights are gathered, and a step in which
/// `other_way` leaves one out.
PrefetchedRun trained_with(Rank& rank, std::size_t in_flight, bool other_way = false) {
  const Mesh mesh(rank.group());
  torch::manual_seed(1);
  models::Mlp net(6, {7, 9}, 5);
  distribute_module(net, mesh, {{"*", {Shard(0)}}});
  auto prefetch = std::make_shared<global::Prefetch>(net.parameters(), in_flight);
  if (in_flight > 0) mesh.state()->set_prefetch(prefetch);
  torch::optim::SGD sgd(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  PrefetchedRun trained;
  reset_traffic(mesh);
  for (int step = 0; step < kPrefetchedSteps; ++step) {
    const auto in = distribute(torch::randn({64, 6}), mesh, {Shard(0)}, Source::rank0);
    net.zero_grad();
    prefetch->begin_step();
    const auto out = other_way && step == 2 ? net.parameters()[0].mean() + net.parameters()[2].mean()
                                            : net.forward(in).pow(2).mean();
    out.backward();
    prefetch->end_step();
    trained.losses.push_back(out.item<float>());
    sgd.step();
  }
  for (const auto& each : net.parameters()) trained.parameters.push_back(full(each.detach()));
  trained.counts = prefetch->counts();
  trained.traffic = traffic_of(mesh);
  return trained;
}

void expect_equal(const PrefetchedRun& a, const PrefetchedRun& b) {
  EXPECT_EQ(a.losses, b.losses);
  ASSERT_EQ(a.parameters.size(), b.parameters.size());
  for (std::size_t i = 0; i < a.parameters.size(); ++i)
    EXPECT_TRUE(torch::equal(a.parameters[i], b.parameters[i])) << i;
}

TEST(Prefetch, BeginsGathersBeforeTheyAreNeeded) {
  test::run_ranks(2, for_prefetching(), [](Rank& rank) {
    const auto without = trained_with(rank, 0);
    const auto with = trained_with(rank, 2);
    expect_equal(with, without);
    const auto& counts = with.counts;
    EXPECT_EQ(counts.gathers % kPrefetchedSteps, 0);
    const auto each_step = counts.gathers / kPrefetchedSteps;
    EXPECT_GE(each_step, 8);  // weights and biases of three layers in forward, two weights in backward
    // The first step learns the order; in each of the others, only the first gather has nothing before it.
    EXPECT_EQ(counts.begun_early, (kPrefetchedSteps - 1) * (each_step - 1));
    EXPECT_EQ(counts.begun_in_vain, 0);
    EXPECT_EQ(counts.most_in_flight, 2);
    EXPECT_EQ(with.traffic, without.traffic);  // not a byte more is sent
  });
}

TEST(Prefetch, AsManyAreInFlightAsAllowed) {
  test::run_ranks(2, for_prefetching(), [](Rank& rank) {
    EXPECT_EQ(trained_with(rank, 1).counts.most_in_flight, 1);
    EXPECT_EQ(trained_with(rank, 5).counts.most_in_flight, 5);
  });
}

TEST(Prefetch, AStepThatTakesAnotherWayIsRight) {
  test::run_ranks(2, for_prefetching(), [](Rank& rank) {
    const auto without = trained_with(rank, 0, /*other_way=*/true);
    const auto with = trained_with(rank, 3, /*other_way=*/true);
    expect_equal(with, without);
    EXPECT_GT(with.counts.begun_early, 0);
  });
}

// A gather that began before a write is made again after it.
TEST(Prefetch, AValueThatIsWrittenMeanwhileIsTheNewOne) {
  test::run_ranks(2, for_prefetching(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    const auto a = distribute(torch::ones({4, 4}), mesh, {Shard(0)});
    const auto b = distribute(torch::ones({4, 4}), mesh, {Shard(0)});
    const auto x = distribute(torch::ones({64, 4}), mesh, {Shard(0)});
    auto prefetch = std::make_shared<global::Prefetch>(std::vector{a, b}, 2);
    mesh.state()->set_prefetch(prefetch);
    for (int step = 0; step < 3; ++step) {
      prefetch->begin_step();
      const auto first = full(torch::matmul(x, a));
      b.fill_(step);
      const auto second = full(torch::matmul(x, b));
      prefetch->end_step();
      EXPECT_TRUE(torch::equal(first, torch::full({64, 4}, 4.0F)));
      EXPECT_TRUE(torch::equal(second, torch::full({64, 4}, 4.0F * static_cast<float>(step)))) << step;
    }
    EXPECT_EQ(prefetch->counts().gathers, 6);
    EXPECT_EQ(prefetch->counts().begun_in_vain, 2);
  });
}

}  // namespace
}  // namespace lockstep
