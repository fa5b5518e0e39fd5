// Gradients of one backward after the other travel in the same memory.
#include <lockstep/global/bucket_memory.h>
#include <lockstep/global/distribute_module.h>

#include "support/ranks.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using global::BucketKind;
using global::BucketMemory;
using test::Rank;
using test::RankOptions;

const RankOptions kOptions{.group = RankOptions::test_group_options("shm")};

TEST(BucketMemory, IsUsedAgain) {
  test::run_ranks(2, kOptions, [](Rank& rank) {
    const Mesh mesh(rank.group());
    const BucketKind kind{.mesh = mesh.state().get()};
    BucketMemory memory;
    const auto use = [&](std::int64_t elements) {
      auto piece = memory.take(kind, elements);
      const void* const data = piece.data_ptr();
      EXPECT_GE(piece.numel(), elements);
      memory.give_back(kind, mesh.state(), std::move(piece));
      return data;
    };
    const auto* const first = use(1000);
    EXPECT_EQ(use(900), first) << "what was given back is free again";
    auto in_use = memory.take(kind, 800);
    const void* const second = use(1000);
    EXPECT_NE(second, in_use.data_ptr());
    memory.give_back(kind, mesh.state(), std::move(in_use));
    memory.end_backward();
    EXPECT_EQ(use(1000), second);
    memory.end_backward();  // the first was not needed
    EXPECT_EQ(use(1000), second);
    auto scattered = kind;
    scattered.scatter = true;
    scattered.op = ReduceOp::max;
    auto piece = memory.take(scattered, 10);
    EXPECT_EQ(piece.data_ptr(), second) << "whatever is done in it";
    memory.give_back(scattered, mesh.state(), std::move(piece));
    auto wide = kind;
    wide.dtype = c10::ScalarType::Double;
    EXPECT_EQ(memory.take(wide, 10).numel(), 10);
    EXPECT_GE(memory.take(kind, 2000).numel(), 2000);
    memory.forget();
    EXPECT_EQ(memory.take(kind, 10).numel(), 10);
  });
}

// Ranks that use memory again and ranks that do not would wait for each other.
TEST(BucketMemory, GradientsAreThoseOfTheirOwnStep) {
  test::run_ranks(2, kOptions, [](Rank& rank) {
    torch::nn::Linear net(torch::nn::LinearOptions(6, 4).bias(false));
    const Mesh mesh(rank.group());
    distribute_module(net, mesh);
    for (int step = 1; step <= 3; ++step) {
      net->zero_grad(/*set_to_none=*/true);
      const auto input = to_global(torch::full({2, 6}, static_cast<float>(step * (rank.rank() + 1))), mesh, {Shard(0)});
      net->forward(input).sum().backward();
      const auto expected = torch::full({4, 6}, static_cast<float>(2 * step * 3));
      EXPECT_TRUE(torch::equal(full(net->weight.grad()), expected)) << step;
    }
  });
}

}  // namespace
}  // namespace lockstep
