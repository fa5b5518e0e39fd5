// What programs do with modules of global tensors beside training them: copies, files, printing, sparse layers; and
// what is gathered where.
#include <lockstep/base/error.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/mesh_state.h>

#include "base/expect_error.h"
#include "support/ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

namespace lockstep {
namespace {

using test::expect_error;
using test::Rank;
using test::RankOptions;
using test::run_ranks;
using testing::AllOf;
using testing::HasSubstr;

RankOptions module_ranks() { return {.group = RankOptions::test_group_options("shm")}; }

torch::nn::Sequential two_layers() {
  torch::manual_seed(3);
  return torch::nn::Sequential(torch::nn::Linear(6, 8), torch::nn::ReLU(), torch::nn::BatchNorm1d(8));
}

TEST(GlobalModules, AreClonedWithTheirPlacements) {
  run_ranks(2, module_ranks(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    auto net = two_layers();
    distribute_module(net, mesh, {{"0.*", {Shard(0)}}});
    const auto copy = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(net->clone());
    const auto own = net->named_parameters();
    for (const auto& each : copy->named_parameters()) {
      ASSERT_TRUE(is_global(each.value())) << each.key();
      EXPECT_EQ(placements_of(each.value()), placements_of(own[each.key()])) << each.key();
      EXPECT_TRUE(torch::equal(each.value(), own[each.key()])) << each.key();
      EXPECT_TRUE(each.value().requires_grad());
    }
    for (const auto& each : copy->named_buffers()) EXPECT_TRUE(is_global(each.value())) << each.key();
    const auto x = distribute(torch::randn({5, 6}), mesh, {Shard(0)});
    const auto before = full(own["0.weight"].detach()).clone();
    // A moving average: the copy changes, its original does not.
    torch::optim::SGD sgd(copy->parameters(), 0.1);
    copy->forward(x).square().sum().backward();
    sgd.step();
    EXPECT_TRUE(torch::equal(full(own["0.weight"].detach()), before));
    EXPECT_FALSE(torch::equal(full(copy->named_parameters()["0.weight"].detach()), before));
  });
}

TEST(GlobalModules, AreNotUndoneByFilesOrDevices) {
  run_ranks(2, module_ranks(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    std::stringstream file;
    torch::save(two_layers(), file);
    auto net = two_layers();
    distribute_module(net, mesh, {{"0.*", {Shard(0)}}});
    const auto error = [&](auto&& attempt) {
      expect_error(ErrorKind::unsupported, {"distribute_module()", "copy_", "load_sharded"}, attempt);
    };
    error([&] { torch::load(net, file); });
    error([&] { net->to(torch::kCPU); });
    EXPECT_EQ(placements_of(net->parameters()[0]), Placements{Shard(0)});
    const auto values = torch::randn({8, 6});
    {
      const torch::NoGradGuard no_grad;  // what the error says
      net->parameters()[0].copy_(values);
    }
    EXPECT_TRUE(torch::equal(full(net->parameters()[0].detach()), values));
  });
}

TEST(GlobalModules, SparseEmbeddingsHaveDenseGradients) {
  run_ranks(2, module_ranks(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    torch::manual_seed(3);
    torch::nn::Embedding plain(torch::nn::EmbeddingOptions(10, 4).sparse(true));
    torch::nn::Embedding global(torch::nn::EmbeddingOptions(10, 4).sparse(true));
    global->weight.data().copy_(plain->weight.data());
    distribute_module(*global, mesh, {{"weight", {Shard(0)}}});
    const auto words = torch::randint(10, {6, 3}, torch::kLong);
    plain(words).square().sum().backward();
    global(distribute(words, mesh, {Shard(0)})).square().sum().backward();
    EXPECT_TRUE(torch::allclose(full(global->weight.grad()), plain->weight.grad().to_dense()));
    EXPECT_EQ(placements_of(global->weight.grad()), Placements{Shard(0)});
  });
}

TEST(GlobalModules, ArePrintedWithTheirValues) {
  run_ranks(2, module_ranks(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    std::ostringstream text;
    text << distribute(torch::arange(4, torch::kFloat).add(0.5), mesh, {Shard(0)});
    EXPECT_THAT(text.str(), AllOf(HasSubstr("0.5"), HasSubstr("3.5"), HasSubstr("{4}")));
  });
}

TEST(GlobalModules, EqualSendsOneAnswer) {
  run_ranks(2, module_ranks(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    const auto x = distribute(torch::arange(1000, torch::kFloat).view({10, 100}), mesh, {Shard(1)});
    auto other = x.clone();
    reset_traffic(mesh);
    EXPECT_TRUE(torch::equal(x, x));
    EXPECT_TRUE(torch::equal(x, other));
    other.select(1, 99).select(0, 9).add_(1);  // of the last rank alone
    reset_traffic(mesh);
    EXPECT_FALSE(torch::equal(x, other));
    EXPECT_FALSE(torch::equal(x, x.t()));
    const auto sent = traffic_of(mesh);
    EXPECT_EQ(sent.all_gather.calls + sent.all_to_all.calls + sent.reduce_scatter.calls, 0);
    EXPECT_LE(sent.all_reduce.bytes, 4);
    // A single rank may read what every rank has.
    const auto whole = redistribute(x, {Replicate()});
    if (rank.rank() == 0) {
      EXPECT_TRUE(torch::equal(whole, whole));
    }
    EXPECT_TRUE(torch::isnan(x * std::nan("")).all().item<bool>());
    EXPECT_FALSE(torch::equal(x * std::nan(""), x * std::nan("")));
  });
}

TEST(GlobalModules, WhatGathersIsListed) {
  run_ranks(2, module_ranks(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    const auto x = distribute(torch::randn({8, 16}), mesh, {Shard(0)});
    EXPECT_GT(x.mm(redistribute(x, {Replicate()}).t()).relu().sum().item<double>(), 0);
    EXPECT_TRUE(gathering_calls(mesh).empty());
    for (int i = 0; i < 3; ++i) x.flip({0});
    x.median();
    const auto calls = gathering_calls(mesh);
    EXPECT_THAT(calls, testing::Contains(HasSubstr("aten::median of [Shard(0)]: 1 call, ")));
    for (const auto& each : calls) EXPECT_THAT(each, HasSubstr("MB"));
  });
}

}  // namespace
}  // namespace lockstep
