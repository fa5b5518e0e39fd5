#include <lockstep/plan/cost/simulate.h>
#include <lockstep/plan/search/search.h>

#include "example_graphs.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using plan::Cluster;
using plan::Collective;

Cluster eight() {
  Cluster cluster{.nodes = 1, .devices_per_node = 8};
  cluster.device.memory = {1e12};
  return cluster;
}

double count(const plan::Prediction& prediction, Collective kind) {
  return prediction.traffic.count[static_cast<std::size_t>(kind)];
}

TEST(Simulate, DataParallelOnlyReducesGradients) {
  const auto graph = test::mlp_step(64, {256, 512, 512, 16});
  const auto prediction = plan::predict(graph, eight(), {8}, {Shard(0)}, {});
  EXPECT_EQ(prediction.redistribution.value, 0);
  EXPECT_EQ(count(prediction, Collective::all_gather), 0);
  const double parameters = 4.0 * (256 * 512 + 512 + 512 * 512 + 512 + 512 * 16 + 16);
  EXPECT_EQ(prediction.memory.parameters.value, parameters);
  EXPECT_EQ(prediction.memory.gradients.value, parameters);
  EXPECT_EQ(prediction.memory.optimizer_state.value, parameters);
  // One all_reduce of two numbers by the loss; the rest are the gradients.
  EXPECT_EQ(prediction.traffic.bytes[0].value, parameters + 8);
  EXPECT_GT(prediction.reduction.value, 0);
  EXPECT_LE(prediction.exposed.value, prediction.reduction.value * (1 + 1e-9));
}

TEST(Simulate, MegatronsPairNeedsOneAllReduceEachWay) {
  const auto graph = test::mlp_step(64, {256, 512, 256});
  const ModulePlan pair{{"fc1.*", {Shard(0)}}, {"fc2.weight", {Shard(1)}}};
  const auto prediction = plan::predict(graph, eight(), {8}, {Replicate()}, pair);
  // The sum after fc2. The input needs no gradient, so there is none on the way back, and no gradient is partial.
  EXPECT_EQ(count(prediction, Collective::all_reduce), 1);
  EXPECT_EQ(count(prediction, Collective::all_gather), 0);
  EXPECT_EQ(prediction.reduction.value, 0);
  const auto data_parallel = plan::predict(graph, eight(), {8}, {Shard(0)}, {});
  EXPECT_LT(prediction.memory.parameters.value, data_parallel.memory.parameters.value / 4);
}

TEST(Simulate, TwoAxesDoBoth) {
  const auto graph = test::mlp_step(64, {256, 512, 256});
  const ModulePlan pair{{"fc1.*", {Replicate(), Shard(0)}}, {"fc2.weight", {Replicate(), Shard(1)}}};
  const auto prediction = plan::predict(graph, eight(), {2, 4}, {Shard(0), Replicate()}, pair);
  EXPECT_EQ(count(prediction, Collective::all_gather), 0);
  EXPECT_GT(prediction.reduction.value, 0);
  EXPECT_EQ(prediction.memory.parameters.value, 4.0 * (256 * 128 + 128 + 512 / 4 * 256 + 256));
}

TEST(Simulate, ActivationsLiveUntilTheirLastReader) {
  // Without a backward that needs it, nothing of the first layer stays.
  test::StepBuilder step;
  const auto x = step.input("input", {1024, 8});
  const auto target = step.input("target", {1024}, false);
  auto y = x;
  for (int i = 0; i < 4; ++i) y = step.relu(step.linear("fc" + std::to_string(i), y, 1024));
  const auto graph = step.train(y, target);
  const auto one = plan::predict(graph, {}, {1}, {Replicate()}, {});
  const double activation = 4.0 * 1024 * 1024;
  // relu's results are kept for the backward, four of them and the logarithms; addmm's end with the relu.
  EXPECT_GE(one.memory.activations.value, 5 * activation);
  EXPECT_LE(one.memory.activations.value, 8 * activation);
}

// Of more than four buckets the first are copied back, so it makes a difference whose gradients come first.
TEST(Simulate, OnlyTheLastSumsStayInTheirBuckets) {
  auto cluster = eight();
  cluster.device.memory_bandwidth = {1e9};
  cluster.intra_node = {.bandwidth = {1e30}, .latency = {}};
  const auto cost = [&](const std::vector<std::int64_t>& widths) {
    return plan::predict(test::mlp_step(8, widths), cluster, {8}, {Shard(0)}, {}).cost.value;
  };
  const double wide = 4.0 * 4096 * 2048;  // bytes
  const double layer = 4.0 * 2048 * 2048;
  const double comes_last = cost({4096, 2048, 2047, 2046, 2045, 2044, 2043, 2042, 2041, 2040});
  const double comes_first = cost({2040, 2041, 2042, 2043, 2044, 2045, 2046, 2047, 2048, 4096});
  // Either the wide gradient is copied, which is read and written, or that of the layer that comes first. And all
  // weights but the first layer's, whose input needs no gradient, are read once more by the backward.
  const double more = (2 + 1) * (wide - layer) / 1e9;
  EXPECT_NEAR(comes_first - comes_last, more, 0.02 * more) << comes_first << " " << comes_last;
}

TEST(Simulate, ReductionsHideBehindTheBackward) {
  const auto graph = test::mlp_step(4096, {2048, 2048, 2048, 2048});
  auto cluster = eight();
  cluster.overlap = 1;
  const auto hidden = plan::predict(graph, cluster, {8}, {Shard(0)}, {});
  cluster.overlap = 0;
  const auto open = plan::predict(graph, cluster, {8}, {Shard(0)}, {});
  EXPECT_LT(hidden.cost.value, open.cost.value);
  EXPECT_NEAR(open.cost.value,
              open.compute.value + open.communication.value + open.redistribution.value + open.reduction.value, 1e-9);
}

}  // namespace
}  // namespace lockstep
