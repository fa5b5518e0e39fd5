// A run with global parameters that is saved and goes on elsewhere makes the same steps.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/state/tensors.h>
#include <lockstep/train/optimizer.h>

#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "state/sharded/saved_model.h"
#include "support/ranks.h"

namespace lockstep::train {
namespace {

using lockstep::test::expect_error;
using lockstep::test::Rank;
using lockstep::test::RankOptions;
using lockstep::test::run_ranks;

RankOptions with_shm() { return {.group = RankOptions::test_group_options("shm")}; }

struct TwoLayers {
  NamedParameters parameters;
  std::unique_ptr<torch::optim::Optimizer> optimizer;

  TwoLayers(const Mesh& mesh, const Placements& first, const Placements& second, const std::string& kind) {
    const auto weight = (torch::arange(35, torch::kFloat) * 0.3).sin().reshape({5, 7});
    const auto bias = (torch::arange(7, torch::kFloat) * 0.7).cos();
    parameters.emplace_back("weight", distribute(weight, mesh, first).requires_grad_());
    parameters.emplace_back("bias", distribute(bias, mesh, second).requires_grad_());
    const std::vector<at::Tensor> tensors{parameters[0].second, parameters[1].second};
    if (kind == "sgd") {
      optimizer = std::make_unique<torch::optim::SGD>(tensors, torch::optim::SGDOptions(0.1).momentum(0.9));
    } else {
      optimizer = std::make_unique<torch::optim::Adam>(tensors, torch::optim::AdamOptions(0.1));
    }
  }

  /// Elementwise, so that every placement gives the same bits.
  void step() const {
    for (const auto& [name, parameter] : parameters) parameter.mutable_grad() = (parameter.detach() * 0.5 + 1);
    optimizer->step();
  }

  NamedTensors tensors() const {
    NamedTensors all;
    add_part(all, "model", {parameters.begin(), parameters.end()});
    add_part(all, "optimizer", optimizer_state(*optimizer, parameters));
    return all;
  }
};

class ShardedOptimizerState : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Kinds, ShardedOptimizerState, testing::Values("sgd", "adam"),
                         [](const auto& one) { return one.param; });

TEST_P(ShardedOptimizerState, GoesOnOnAnotherMeshWithTheSameBits) {
  const TemporaryFolder folder;
  const auto ckpt = folder.path() / "ckpt";
  run_ranks(4, with_shm(), [&](Rank& rank) {
    const Mesh mesh(rank.group(), {2, 2});
    const TwoLayers run(mesh, {Shard(0), Shard(1)}, {Replicate(), Shard(0)}, GetParam());
    for (int i = 0; i < 3; ++i) run.step();
    save_sharded(ckpt, run.tensors());
    for (int i = 0; i < 2; ++i) run.step();
    save_sharded(folder.path() / "end", run.tensors());
  });
  run_ranks(3, with_shm(), [&](Rank& rank) {
    const Mesh mesh(rank.group());
    const TwoLayers run(mesh, {Shard(1)}, {Replicate()}, GetParam());
    load_sharded(ckpt, {{"model.weight", run.parameters[0].second}, {"model.bias", run.parameters[1].second}});
    load_sharded_optimizer(ckpt, "optimizer.", *run.optimizer, run.parameters);
    for (int i = 0; i < 2; ++i) run.step();
    const auto now = run.tensors();
    const auto end = test::without_values(now);
    load_sharded(folder.path() / "end", end);
    for (const auto& [name, tensor] : now) {
      const auto whole = [](const at::Tensor& each) { return is_global(each) ? full(each.detach()) : each; };
      EXPECT_TRUE(torch::equal(whole(tensor), whole(end.at(name)))) << name;
    }
    EXPECT_EQ(now.size(), GetParam() == "sgd" ? 4u : 8u);
  });
}

TEST_P(ShardedOptimizerState, OfAnotherKindOrAnotherParameterIsRefused) {
  const TemporaryFolder folder;
  run_ranks(2, with_shm(), [&](Rank& rank) {
    const Mesh mesh(rank.group());
    const TwoLayers run(mesh, {Shard(0)}, {Replicate()}, GetParam());
    run.step();
    save_sharded(folder.path(), run.tensors());
    const TwoLayers other(mesh, {Shard(0)}, {Replicate()}, GetParam() == "sgd" ? "adam" : "sgd");
    expect_error(ErrorKind::data, {"optimizer.bias.", "no place"},
                 [&] { load_sharded_optimizer(folder.path(), "optimizer.", *other.optimizer, other.parameters); });
    expect_error(ErrorKind::data, {"optimizer.bias.", "no place"},
                 [&] { load_sharded_optimizer(folder.path(), "optimizer.", *run.optimizer, {run.parameters[0]}); });
  });
}

}  // namespace
}  // namespace lockstep::train
