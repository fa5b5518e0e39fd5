#include <lockstep/global/placement.h>
#include <lockstep/plan/cost/cost_model.h>
#include <lockstep/plan/cost/decisions.h>

#include "example_graphs.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using plan::AxisSpan;
using plan::Bytes;
using plan::Cluster;
using plan::Collective;
using plan::Link;

const Link kFree{.bandwidth = {1e9}, .latency = {0}};

TEST(CostModel, RingsMoveWhatTheyMust) {
  const Bytes all{4e9};
  EXPECT_DOUBLE_EQ(plan::collective_time(Collective::all_reduce, 4, all, kFree).value, 6);
  EXPECT_DOUBLE_EQ(plan::collective_time(Collective::all_gather, 4, all, kFree).value, 3);
  EXPECT_DOUBLE_EQ(plan::collective_time(Collective::reduce_scatter, 4, all, kFree).value, 3);
  EXPECT_DOUBLE_EQ(plan::collective_time(Collective::all_to_all, 4, all, kFree).value, 3);
  EXPECT_EQ(plan::collective_time(Collective::all_reduce, 1, all, kFree).value, 0);
}

TEST(CostModel, SmallOnesTakeATree) {
  const Link slow{.bandwidth = {1e9}, .latency = {1}};
  EXPECT_NEAR(plan::collective_time(Collective::all_reduce, 64, {8}, slow).value, 12, 1e-6);
  EXPECT_NEAR(plan::collective_time(Collective::all_gather, 5, {8}, slow).value, 3, 1e-6);
}

TEST(CostModel, AxesKnowWhetherTheyCrossNodes) {
  const Cluster cluster{.nodes = 4, .devices_per_node = 4};
  const std::vector<int> mesh{4, 4};
  const auto inner = plan::span_of_axis(cluster, mesh, 1);
  EXPECT_EQ(inner.nodes, 1);
  const auto outer = plan::span_of_axis(cluster, mesh, 0);
  EXPECT_EQ(outer.nodes, 4);
  EXPECT_EQ(outer.on_node, 1);
  EXPECT_EQ(outer.groups_on_node, 4);
  const std::vector<int> line{16};
  const auto all = plan::span_of_axis(cluster, line, 0);
  EXPECT_EQ(all.nodes, 4);
  EXPECT_EQ(all.on_node, 4);
  EXPECT_EQ(all.groups_on_node, 1);
}

TEST(CostModel, GroupsShareTheLinkOfTheirNode) {
  Cluster cluster{.nodes = 2, .devices_per_node = 4};
  cluster.intra_node = {.bandwidth = {1e15}, .latency = {0}};
  cluster.inter_node = kFree;
  const auto model = plan::cost_model(cluster, std::vector<int>{2, 4});
  // Each node sends and receives four groups' gigabytes.
  EXPECT_NEAR(model.collective(Collective::all_reduce, 0, {1e9}).value, 4, 1e-3);
  // One group: a slice for each member, or a ring of all, but one gigabyte for each node.
  const auto line = plan::cost_model(cluster, std::vector<int>{8});
  EXPECT_NEAR(line.collective(Collective::all_reduce, 0, {1e9}).value, 1, 1e-3);
}

TEST(CostModel, ProductsReorderTheirMatricesBesideTheArithmetic) {
  Cluster cluster;
  cluster.device = {.matmul = {1e9},
                    .matmul_bandwidth = plan::BytesPerSecond{1e6},
                    .convolution = {1e9},
                    .memory_bandwidth = {1e9},
                    .operator_overhead = {0}};
  plan::Work work{.kind = plan::Work::Kind::matmul, .flops = {2e9}, .touched = {3e6}};
  EXPECT_DOUBLE_EQ(plan::cost_model(cluster, std::vector<int>{1}).compute(work).value, 5);
  work.kind = plan::Work::Kind::convolution;
  EXPECT_DOUBLE_EQ(plan::cost_model(cluster, std::vector<int>{1}).compute(work).value, 2) << "a rate of their own";
  work.kind = plan::Work::Kind::matmul;
  cluster.device.matmul_bandwidth.reset();
  EXPECT_DOUBLE_EQ(plan::cost_model(cluster, std::vector<int>{1}).compute(work).value, 2);
}

TEST(CostModel, TwoMeasurementsTellArithmeticFromReordering) {
  const auto timed = [](double work, double touched) {
    return plan::TimedWork{.work = {work}, .touched = {touched}, .took = {work / 1e9 + touched / 1e6}};
  };
  const auto rates = plan::rates_of(timed(2e9, 3e6), timed(16e9, 5e6));
  EXPECT_NEAR(rates.computing.value, 1e9, 1);
  ASSERT_TRUE(rates.moving);
  EXPECT_NEAR(rates.moving->value, 1e6, 1e-3);
}

TEST(CostModel, DisturbedMeasurementsOfProductsGiveOneRate) {
  const plan::TimedWork few{.work = {2e9}, .touched = {3e6}, .took = {0.1}};
  const plan::TimedWork slow{.work = {16e9}, .touched = {5e6}, .took = {16}};
  const auto rates = plan::rates_of(few, slow);
  EXPECT_DOUBLE_EQ(rates.computing.value, 1e9);
  EXPECT_FALSE(rates.moving);
  const plan::TimedWork much_slower{.work = {16e9}, .touched = {5e6}, .took = {0.17}};
  EXPECT_FALSE(plan::rates_of(few, much_slower).moving) << "products that hardly cost arithmetic are not believed";
  EXPECT_FALSE(plan::rates_of(slow, slow).moving) << "the same twice says nothing";
}

/// A model in which time is bytes.
plan::CostModel counting() {
  return {.compute = [](const plan::Work&) { return plan::Seconds{}; },
          .collective = [](Collective, std::size_t, Bytes bytes) { return plan::Seconds{bytes.value}; }};
}

TEST(CostModel, TransitionsCostTheirCollectives) {
  const plan::Program nothing;
  plan::Decisions decisions(nothing, {2, 4}, counting());
  const global::TensorInfo info{.sizes = {8, 16}};  // 512 bytes
  const auto cost = [&](const Placements& from, const Placements& to, plan::Traffic& traffic) {
    return decisions.redistribution(info, from, to, traffic).value;
  };
  plan::Traffic traffic;
  EXPECT_EQ(cost({Shard(0), Replicate()}, {Shard(0), Replicate()}, traffic), 0);
  EXPECT_EQ(cost({Replicate(), Replicate()}, {Shard(0), Shard(1)}, traffic), 0)
      << "parts of what is there cost nothing";
  EXPECT_EQ(traffic.count[0] + traffic.count[1] + traffic.count[2] + traffic.count[3], 0);
  EXPECT_EQ(cost({Partial(), Replicate()}, {Replicate(), Replicate()}, traffic), 512);
  EXPECT_EQ(traffic.count[static_cast<std::size_t>(Collective::all_reduce)], 1);
  EXPECT_EQ(cost({Replicate(), Shard(1)}, {Replicate(), Replicate()}, traffic), 512);
  EXPECT_EQ(cost({Replicate(), Partial()}, {Replicate(), Shard(0)}, traffic), 512);
  EXPECT_EQ(cost({Shard(0), Shard(1)}, {Shard(0), Shard(0)}, traffic), 64) << "an all_to_all of what each rank has";
  EXPECT_EQ(cost({Shard(0), Shard(0)}, {Replicate(), Replicate()}, traffic), 256 + 512) << "the inner axis first";
}

// Bytes read and written by redistribute(), as its steps are written.
TEST(CostModel, TransitionsCostTheirCopies) {
  const plan::Program nothing;
  const plan::CostModel touching{.compute = [](const plan::Work& work) { return plan::Seconds{work.touched.value}; },
                                 .collective = [](Collective, std::size_t, Bytes) { return plan::Seconds{}; }};
  plan::Decisions decisions(nothing, {4}, touching);
  const global::TensorInfo info{.sizes = {8, 16}};  // 512 bytes, parts of 128
  plan::Traffic traffic;
  const auto cost = [&](Placement from, Placement to) {
    return decisions.redistribution(info, {from}, {to}, traffic).value;
  };
  EXPECT_EQ(cost(Replicate(), Shard(0)), 2 * 128) << "the part is cut out";
  EXPECT_EQ(cost(Shard(0), Replicate()), 0) << "an all_gather writes where the result is wanted";
  EXPECT_EQ(cost(Shard(1), Replicate()), 2 * (128 + 512)) << "the dimension is brought to the front and back";
  EXPECT_EQ(cost(Partial(), Replicate()), 2 * 512);
  EXPECT_EQ(cost(Partial(), Shard(0)), 0);
  EXPECT_EQ(cost(Partial(), Shard(1)), 2 * (512 + 128));
  EXPECT_EQ(cost(Shard(1), Shard(0)), 2 * 128);
  EXPECT_EQ(cost(Shard(0), Shard(1)), 2 * (128 + 128));
}

}  // namespace
}  // namespace lockstep
