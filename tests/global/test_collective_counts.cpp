// What is sent for well-known ways to divide a model is what must be sent, and no more.
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/mesh_state.h>
#include <lockstep/models/gpt.h>
#include <lockstep/models/picture_models.h>

#include "support/ranks.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using test::Rank;
using test::RankOptions;

RankOptions for_counting() {
  return {.deadline = std::chrono::seconds(120), .group = RankOptions::test_group_options("shm")};
}

TrafficCount only_all_reduces(std::int64_t calls, std::int64_t bytes) {
  TrafficCount count;
  count.all_reduce = {.calls = calls, .bytes = bytes};
  return count;
}

void expect_traffic(const Mesh& mesh, const TrafficCount& expected, const char* of) {
  const auto got = traffic_of(mesh);
  EXPECT_EQ(got.all_reduce, expected.all_reduce)
      << of << ": " << got.all_reduce.calls << " all_reduces of " << got.all_reduce.bytes << " bytes";
  EXPECT_EQ(got.all_gather, expected.all_gather) << of << ": " << got.all_gather.calls << " all_gathers";
  EXPECT_EQ(got.all_to_all, expected.all_to_all) << of << ": " << got.all_to_all.calls << " all_to_alls";
  EXPECT_EQ(got.reduce_scatter, expected.reduce_scatter) << of << ": " << got.reduce_scatter.calls << " scatters";
  reset_traffic(mesh);
}

const models::GptShape kShape{.vocabulary = 20, .context = 8, .layers = 2, .heads = 4, .width = 16};
constexpr std::int64_t kBatch = 3;
constexpr std::int64_t kLength = 6;
/// Of what goes from one part of a block to the next.
constexpr std::int64_t kActivationBytes = kBatch * kLength * 16 * 4;

/// Megatron's: columns of the first matrix, rows of the second, of each part of a block (Shoeybi et al. 2019).
ModulePlan columns_then_rows() {
  ModulePlan plan;
  for (const char* columns : {"*query.*", "*key.*", "*value.*", "*fc1.*"}) plan.push_back({columns, {Shard(0)}});
  for (const char* rows : {"*output.weight", "*fc2.weight"}) plan.push_back({rows, {Shard(1)}});
  return plan;
}

TEST(GlobalCollectiveCounts, ATransformerBlockByTensorNeedsTwoAllReducesEachWay) {
  test::run_ranks(2, for_counting(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    torch::manual_seed(1);
    models::GptBlock block(kShape);
    distribute_module(block, mesh, columns_then_rows());
    const auto in = distribute(torch::randn({kBatch, kLength, 16}), mesh, {Replicate()}).requires_grad_();
    const auto gradient = distribute(torch::randn({kBatch, kLength, 16}), mesh, {Replicate()});
    reset_traffic(mesh);
    auto out = block.forward(in);
    out = out * 1.0F;  // whatever comes next finishes a sum
    EXPECT_EQ(to_string(placements_of(out)), "[Replicate()]");
    expect_traffic(mesh, only_all_reduces(2, 2 * kActivationBytes), "forward");
    out.backward(gradient);
    expect_traffic(mesh, only_all_reduces(2, 2 * kActivationBytes), "backward");
  });
}

TEST(GlobalCollectiveCounts, ADividedVocabularyIsNeverGathered) {
  test::run_ranks(2, for_counting(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    torch::manual_seed(1);
    const auto logits = distribute(torch::randn({7, 20}), mesh, {Shard(1)}).requires_grad_();
    const auto targets = distribute(torch::randint(20, {7}, torch::kLong), mesh, {Replicate()});
    reset_traffic(mesh);
    const auto loss = torch::cross_entropy_loss(logits, targets);
    // The largest of each row, the sum of each row, and the sums of losses and weights.
    expect_traffic(mesh, only_all_reduces(3, 7 * 4 + 7 * 4 + 2 * 4), "forward");
    loss.backward();
    expect_traffic(mesh, only_all_reduces(1, 7 * 4), "backward");
    EXPECT_EQ(to_string(placements_of(logits.grad())), "[Shard(1)]");

    const auto table = distribute(torch::randn({20, 5}), mesh, {Shard(0)}).requires_grad_();
    const auto rows = torch::embedding(table, targets);
    expect_traffic(mesh, {}, "looking rows up");
    rows.backward(distribute(torch::randn({7, 5}), mesh, {Replicate()}));
    expect_traffic(mesh, {}, "the table's gradient");
  });
}

TEST(GlobalCollectiveCounts, LossesOfDividedSequencesStayWhereTheyAre) {
  test::run_ranks(2, for_counting(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    torch::manual_seed(1);
    const auto scores = distribute(torch::randn({6, 5, 4}), mesh, {Shard(1)}).requires_grad_();
    const auto targets = distribute(torch::randint(1, 4, {5, 2}, torch::kLong), mesh, {Shard(0)});
    reset_traffic(mesh);
    const auto losses =
        torch::ctc_loss(scores.log_softmax(2), targets, {6, 6, 5, 6, 4}, {2, 1, 2, 2, 1}, 0, at::Reduction::None);
    EXPECT_EQ(to_string(placements_of(losses)), "[Shard(0)]");
    losses.sum().backward();
    EXPECT_EQ(to_string(placements_of(scores.grad())), "[Shard(1)]");
    expect_traffic(mesh, {}, "ctc_loss");
  });
}

TEST(GlobalCollectiveCounts, DataParallelSendsGradientsOnly) {
  test::run_ranks(2, for_counting(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    torch::manual_seed(1);
    models::Mlp model(12, {16}, 7);
    distribute_module(model, mesh);
    const auto in = distribute(torch::randn({5, 12}), mesh, {Shard(0)});
    const auto targets = distribute(torch::randint(7, {5}, torch::kLong), mesh, {Shard(0)});
    torch::optim::SGD sgd(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    std::int64_t parameter_bytes = 0;
    for (const auto& each : model.parameters()) parameter_bytes += each.numel() * 4;
    for (int step = 0; step < 2; ++step) {
      reset_traffic(mesh);
      const auto loss = torch::cross_entropy_loss(model.forward(in), targets);
      expect_traffic(mesh, only_all_reduces(1, 2 * 4), "forward: sums of losses and weights");
      sgd.zero_grad();
      loss.backward();
      expect_traffic(mesh, only_all_reduces(1, parameter_bytes), "backward");
      sgd.step();
      expect_traffic(mesh, {}, "the optimizer");
    }
  });
}

TEST(GlobalCollectiveCounts, BatchNormOfADividedBatchExchangesItsStatisticsOnly) {
  test::run_ranks(2, for_counting(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    torch::nn::BatchNorm2d norm(3);
    distribute_module(norm, mesh);
    const auto in = distribute(torch::randn({5, 3, 4, 4}), mesh, {Shard(0)}).requires_grad_();
    reset_traffic(mesh);
    const auto out = norm(in);
    TrafficCount statistics;
    statistics.all_gather = {.calls = 1, .bytes = (1 + 2 * 3) * 8};  // the count, mean and squares of 3 channels
    expect_traffic(mesh, statistics, "forward");
    out.backward(distribute(torch::randn({5, 3, 4, 4}), mesh, {Shard(0)}));
    expect_traffic(mesh, only_all_reduces(1, 2 * 3 * 8), "backward");
  });
}

}  // namespace
}  // namespace lockstep
