// The device of parts: everything on a mesh is made there, and what comes from elsewhere is moved. libtorch's meta
// device stands in for one that this machine lacks: its operators know sizes and devices alone, and refuse tensors of
// others.
#include <lockstep/global/dispatch/kernels.h>
#include <lockstep/global/factories.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/tensor_state.h>

#include "support/forks.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

/// In a process of its own: who has computed gradients can no longer fork.
void on_meta_mesh(const std::function<void(const Mesh&)>& body) {
  fork_ranks(1, {}, [&](int) {
    global::register_kernels();
    const Mesh mesh(std::make_shared<global::MeshState>(connect(World{}, {.backend = "self"}), std::vector{1},
                                                        std::vector<std::string>{"data"}, nullptr,
                                                        c10::Device(c10::kMeta)));
    const MeshScope scope(mesh);
    body(mesh);
  });
}

void expect_there(const at::Tensor& tensor, const char* what) {
  ASSERT_TRUE(tensor.defined()) << what;
  ASSERT_TRUE(is_global(tensor)) << what;
  EXPECT_TRUE(global::state_of(tensor).local.is_meta()) << what;
}

const Placements kByRows{Shard(0)};

TEST(PartDevice, IsThatOfTheGroupByItself) {
  on_meta_mesh([](const Mesh& mesh) {
    EXPECT_EQ(Mesh(connect(World{}, {.backend = "self"})).device(), c10::Device(c10::kCPU));
    EXPECT_EQ(mesh.device(), c10::Device(c10::kMeta));
  });
}

TEST(PartDevice, IsWhereTensorsFromElsewhereGo) {
  on_meta_mesh([](const Mesh& mesh) {
    const auto here = torch::randn({8, 6});
    expect_there(to_global(here, mesh, kByRows), "to_global");
    expect_there(distribute(here, mesh, kByRows), "distribute");
    auto copied = zeros({8, 6}, mesh, kByRows);
    copied.copy_(here);
    expect_there(copied, "copy_");
  });
}

TEST(PartDevice, IsWhereFactoriesMakeTensors) {
  on_meta_mesh([](const Mesh& mesh) {
    expect_there(zeros({8, 6}, mesh, kByRows), "zeros");
    expect_there(full({8, 6}, 2, mesh, kByRows), "full");
    expect_there(randn({8, 6}, mesh, kByRows), "randn");
    expect_there(torch::ones({3}, global_device()), "a factory of libtorch");
    expect_there(torch::arange(5, at::TensorOptions(global_device())), "arange");
    const auto like = zeros({8, 6}, mesh, kByRows);
    expect_there(torch::zeros_like(like), "zeros_like");
    expect_there(like.new_ones({2, 3}), "new_ones");
  });
}

TEST(PartDevice, IsThatOfResultsViewsAndWrites) {
  on_meta_mesh([](const Mesh& mesh) {
    auto x = to_global(torch::randn({8, 6}), mesh, kByRows);
    expect_there(x.t().reshape({4, 12}).select(0, 1), "a view of a view");
    expect_there(torch::cat({x, x}), "cat");
    expect_there(x.gather(1, torch::ones({8, 2}, at::TensorOptions(global_device()).dtype(torch::kLong))), "gather");
    x.add_(1).narrow(0, 0, 2).zero_();
    expect_there(x, "written in place");
    x.t().reshape({-1}).mul_(2);
    expect_there(x, "written through views");
    expect_there(torch::dropout(x, 0.5, true), "random numbers");
    expect_there(std::get<0>(x.max(1)), "max");
    expect_there(x.to(torch::kDouble), "another dtype");
  });
}

TEST(PartDevice, IsThatOfATrainingStep) {
  on_meta_mesh([](const Mesh& mesh) {
    torch::nn::Sequential model(torch::nn::Linear(6, 16), torch::nn::Tanh(), torch::nn::Linear(16, 4));
    distribute_module(*model, mesh, {});
    for (const auto& parameter : model->named_parameters()) expect_there(parameter.value(), parameter.key().c_str());
    torch::optim::AdamW optimizer(model->parameters());
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      const auto x = to_global(torch::randn({8, 6}), mesh, kByRows);
      const auto y = to_global(torch::zeros({8}, torch::kLong), mesh, kByRows);
      const auto loss = torch::nn::functional::cross_entropy(model->forward(x), y);
      expect_there(loss, "the loss");
      loss.backward();
      for (const auto& parameter : model->named_parameters()) expect_there(parameter.value().grad(), "a gradient");
      optimizer.step();
    }
  });
}

}  // namespace
}  // namespace lockstep::test
