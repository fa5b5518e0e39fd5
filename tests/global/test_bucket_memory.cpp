// Gradients of one backward after the other travel in the same memory.
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/gradient_bucket.h>

#include "support/ranks.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <utility>

namespace lockstep {
namespace {

using global::BucketKind;
using global::BucketMemory;
using test::Rank;
using test::RankOptions;

/// Each gradient in a bucket of its own.
constexpr GradientReductionOptions kEachAlone{.bucket_bytes = 1, .first_bucket_bytes = 1};

const RankOptions kOptions{.group = RankOptions::test_group_options("shm")};

TEST(BucketMemory, IsUsedAgain) {
  test::run_ranks(2, kOptions, [](Rank& rank) {
    const Mesh mesh(rank.group());
    const BucketKind kind{.mesh = mesh.state().get()};
    BucketMemory memory;
    const auto use = [&](std::int64_t elements) {
      auto piece = memory.take(kind, mesh.state(), elements);
      const void* const data = piece.memory.data_ptr();
      EXPECT_GE(piece.memory.numel(), elements);
      memory.give_back(std::move(piece));
      return data;
    };
    const auto* const first = use(1000);
    EXPECT_EQ(use(900), first) << "what was given back is free again";
    auto in_use = memory.take(kind, mesh.state(), 800);
    const void* const second = use(1000);
    EXPECT_NE(second, in_use.memory.data_ptr());
    memory.give_back(std::move(in_use));
    memory.end_backward();
    EXPECT_EQ(use(1000), second);
    memory.end_backward();  // the first was not needed
    EXPECT_EQ(use(1000), second);
    auto scattered = kind;
    scattered.scatter = true;
    scattered.op = ReduceOp::max;
    auto piece = memory.take(scattered, mesh.state(), 10);
    EXPECT_EQ(piece.memory.data_ptr(), second) << "whatever is done in it";
    memory.give_back(std::move(piece));
    auto wide = kind;
    wide.dtype = c10::ScalarType::Double;
    EXPECT_EQ(memory.take(wide, mesh.state(), 10).memory.numel(), 10);
    EXPECT_GE(memory.take(kind, mesh.state(), 2000).memory.numel(), 2000);
    memory.forget();
    EXPECT_EQ(memory.take(kind, mesh.state(), 10).memory.numel(), 10);
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

class LentMemory : public testing::TestWithParam<const char*> {
 protected:
  const RankOptions options_{.group = RankOptions::test_group_options(GetParam())};
};
INSTANTIATE_TEST_SUITE_P(Backends, LentMemory, testing::Values("shm", "tcp"),
                         [](const auto& backend) { return backend.param; });

TEST_P(LentMemory, SumsStayWhereTheyWereReduced) {
  test::run_ranks(2, options_, [](Rank& rank) {
    torch::nn::Linear net(6, 4);
    const Mesh mesh(rank.group());
    distribute_module(net, mesh);
    const auto input = distribute(torch::ones({2, 6}), mesh, {Shard(0)});
    const auto where = [&](bool set_to_none) {
      net->zero_grad(set_to_none);
      net->forward(input).pow(2).sum().backward();
      return std::pair(to_local(net->weight.grad()).data_ptr(), to_local(net->bias.grad()).data_ptr());
    };
    const auto first = where(true);
    EXPECT_EQ(where(true), first);
    const auto distance = std::abs(static_cast<float*>(first.first) - static_cast<float*>(first.second));
    EXPECT_TRUE(distance == 4 || distance == 24) << "one beside the other: " << distance;
    const auto own = where(false);
    EXPECT_NE(own, first) << "this program adds to gradients";
    EXPECT_EQ(where(false), own);
    EXPECT_EQ(to_local(net->bias.grad()).storage().nbytes(), 4 * sizeof(float)) << "no more than its own memory";
  });
}

TEST_P(LentMemory, ABackwardThatThrowsTakesNothingAlong) {
  test::run_ranks(2, options_, [](Rank& rank) {
    torch::nn::Linear first(torch::nn::LinearOptions(3, 6).bias(false));
    torch::nn::Linear second(torch::nn::LinearOptions(6, 4).bias(false));
    const Mesh mesh(rank.group());
    distribute_module(first, mesh, {}, {.gradients = kEachAlone});
    distribute_module(second, mesh, {}, {.gradients = kEachAlone});
    const auto input = distribute(torch::ones({2, 3}), mesh, {Shard(0)});
    const auto backward = [&](float with, bool fails) {
      first->zero_grad(/*set_to_none=*/true);
      second->zero_grad(/*set_to_none=*/true);
      auto hidden = first->forward(input) * 0 + 1;
      // The second layer's gradient is on its way then.
      if (fails) hidden.register_hook([](const at::Tensor&) { throw std::runtime_error("in backward"); });
      second->forward(hidden).mul(with).sum().backward();
      return second->weight.grad();
    };
    const auto held = backward(1, false);
    EXPECT_THROW(backward(5, true), std::runtime_error);
    EXPECT_TRUE(torch::equal(to_local(held), torch::full({4, 6}, 2.0F))) << to_local(held);
    const auto after = backward(3, false);
    EXPECT_TRUE(torch::equal(to_local(after), torch::full({4, 6}, 6.0F))) << to_local(after);
    EXPECT_TRUE(torch::equal(to_local(held), torch::full({4, 6}, 2.0F))) << to_local(held);
  });
}

// More buckets than are under way at once: the first are copied back, the last stay, and pieces are used again.
TEST_P(LentMemory, GradientsOfManyBucketsAreThoseOfOneDevice) {
  test::run_ranks(2, options_, [](Rank& rank) {
    torch::manual_seed(1);
    torch::nn::Sequential net;
    for (const int width : {5, 9, 3, 8, 4, 7, 6, 2}) {
      const auto inputs =
          net->is_empty() ? 4 : net->ptr<torch::nn::LinearImpl>(net->size() - 1)->options.out_features();
      net->push_back(torch::nn::Linear(inputs, width));
    }
    torch::nn::Sequential alone(std::dynamic_pointer_cast<torch::nn::SequentialImpl>(net->clone()));
    const Mesh mesh(rank.group());
    distribute_module(*net, mesh, {}, {.gradients = kEachAlone});
    std::vector<std::pair<at::Tensor, at::Tensor>> held;
    for (int step = 0; step < 3; ++step) {
      net->zero_grad(/*set_to_none=*/true);
      alone->zero_grad(/*set_to_none=*/true);
      const auto pictures = torch::randn({6, 4});
      net->forward(distribute(pictures, mesh, {Shard(0)})).pow(2).sum().backward();
      alone->forward(pictures).pow(2).sum().backward();
      for (std::size_t i = 0; i < net->parameters().size(); ++i) {
        held.emplace_back(net->parameters()[i].grad(), alone->parameters()[i].grad());
      }
    }
    for (const auto& [gradient, expected] : held) {
      EXPECT_TRUE(torch::allclose(to_local(gradient), expected, 1e-4, 1e-5)) << to_local(gradient) << expected;
    }
  });
}

// Ranks of an axis must agree on what is under way, however much the other axis left them.
TEST(BucketMemory, UnevenPartsAreDecidedAlike) {
  test::run_ranks(4, kOptions, [](Rank& rank) {
    torch::manual_seed(1);
    torch::nn::Sequential net;
    for (int i = 0; i < 6; ++i) net->push_back(torch::nn::Linear(5, 5));
    torch::nn::Sequential alone(std::dynamic_pointer_cast<torch::nn::SequentialImpl>(net->clone()));
    const Mesh mesh(rank.group(), {2, 2}, {"model", "data"});
    const Placements divided{Shard(0), Replicate()};
    // Even layers are divided along `model`, 3 rows and 2: their sums over `data` differ in size between its ranks.
    distribute_module(*net, mesh, {{"0.weight", divided}, {"2.weight", divided}, {"4.weight", divided}},
                      {.gradients = {.bucket_bytes = 50, .first_bucket_bytes = 50}});
    for (int step = 0; step < 3; ++step) {
      net->zero_grad(/*set_to_none=*/true);
      alone->zero_grad(/*set_to_none=*/true);
      const auto pictures = torch::randn({6, 5});
      net->forward(distribute(pictures, mesh, {Shard(0), Shard(0)})).pow(2).sum().backward();
      alone->forward(pictures).pow(2).sum().backward();
      for (std::size_t i = 0; i < net->parameters().size(); ++i) {
        EXPECT_TRUE(torch::allclose(full(net->parameters()[i].grad()), alone->parameters()[i].grad(), 1e-4, 1e-5)) << i;
      }
    }
  });
}

// They lie in memory that the next backward sends in.
TEST_P(LentMemory, GradientsThatAreHeldKeepTheirNumbers) {
  test::run_ranks(2, options_, [](Rank& rank) {
    torch::nn::Linear net(torch::nn::LinearOptions(6, 4).bias(false));
    const Mesh mesh(rank.group());
    distribute_module(net, mesh);
    const auto backward = [&](float with) {
      const auto input = to_global(torch::full({2, 6}, with * static_cast<float>(rank.rank() + 1)), mesh, {Shard(0)});
      net->forward(input).sum().backward();
    };
    const auto expect_local = [](const at::Tensor& gradient, float wanted, const char* what) {
      EXPECT_TRUE(torch::equal(to_local(gradient), torch::full({4, 6}, wanted))) << what << "\n" << to_local(gradient);
    };
    const auto expect = [&](const at::Tensor& gradient, float wanted, const char* what) {
      expect_local(gradient, wanted, what);
      EXPECT_TRUE(torch::equal(full(gradient), torch::full({4, 6}, wanted))) << what << "\n" << full(gradient);
    };
    struct Held {
      at::Tensor gradient;
      at::Tensor detached;  ///< another tensor over the same numbers, as zero_grad() of libtorch 1.13 makes one
      at::Tensor row;       ///< of this rank's
    };
    std::vector<Held> held;
    for (int step = 1; step <= 3; ++step) {
      net->zero_grad(/*set_to_none=*/true);
      backward(static_cast<float>(step));
      const auto gradient = net->weight.grad();
      if (rank.rank() == 0) held.push_back({gradient, gradient.detach(), to_local(gradient)[2]});
    }
    for (std::size_t i = 0; i < held.size(); ++i) {
      const auto wanted = static_cast<float>(6 * (i + 1));
      expect_local(held[i].gradient, wanted, "of an earlier step");
      expect_local(held[i].detached, wanted, "detached");
      EXPECT_TRUE(torch::equal(held[i].row, torch::full({6}, wanted))) << held[i].row;
      EXPECT_EQ(held[i].gradient.data_ptr(), to_local(held[i].gradient).data_ptr()) << "where the numbers are now";
    }
    backward(1);
    expect(net->weight.grad(), 6 * 3 + 6, "added to");
    net->zero_grad(/*set_to_none=*/false);
    backward(2);
    expect(net->weight.grad(), 12, "zeroed in place");
    torch::nn::utils::clip_grad_value_({net->weight}, 1);
    backward(2);
    expect(net->weight.grad(), 13, "changed in place, and added to");
  });
}

TEST(BucketMemory, GradientsLieAsTheirParameters) {
  test::run_ranks(2, kOptions, [](Rank& rank) {
    torch::manual_seed(1);
    torch::nn::Conv2d net(torch::nn::Conv2dOptions(3, 5, 2).bias(false));
    net->weight.set_data(net->weight.contiguous(at::MemoryFormat::ChannelsLast));
    torch::nn::Conv2d alone(torch::nn::Conv2dOptions(3, 5, 2).bias(false));
    alone->weight.set_data(net->weight.detach().clone());
    const Mesh mesh(rank.group());
    distribute_module(net, mesh);
    const auto pictures = torch::arange(4.0 * 3 * 5 * 5, at::kFloat).view({4, 3, 5, 5}) / 100;
    for (int step = 0; step < 2; ++step) {
      net->zero_grad(/*set_to_none=*/true);
      alone->zero_grad(/*set_to_none=*/true);
      net->forward(distribute(pictures, mesh, {Shard(0)})).pow(2).sum().backward();
      alone->forward(pictures).pow(2).sum().backward();
      ASSERT_FALSE(to_local(net->weight).is_contiguous());
      EXPECT_EQ(to_local(net->weight.grad()).strides(), to_local(net->weight).strides());
      EXPECT_TRUE(torch::allclose(full(net->weight.grad()), alone->weight.grad(), 1e-4, 1e-3));
    }
  });
}

}  // namespace
}  // namespace lockstep
