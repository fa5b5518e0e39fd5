#include "trained_model.h"

#include <lockstep/global/global_tensor.h>

#include <gtest/gtest.h>

namespace lockstep::test {
namespace {

constexpr int kSteps = 5;
constexpr double kTolerance = 1e-7;

std::shared_ptr<torch::nn::Module> make(const TrainedModel& model) {
  torch::manual_seed(11);
  auto module = model.make();
  module->to(torch::kDouble);
  return module;
}

std::vector<double> train(const TrainedModel& model, torch::nn::Module& module, const torch::Tensor& inputs,
                          const torch::Tensor& targets) {
  torch::optim::SGD sgd(module.parameters(), torch::optim::SGDOptions(0.02).momentum(0.9).weight_decay(1e-3));
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    sgd.zero_grad();
    const auto loss = torch::cross_entropy_loss(model.forward(module, inputs), targets);
    loss.backward();
    sgd.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

void expect_close(const std::string& name, const torch::Tensor& got, const torch::Tensor& expected) {
  const auto whole = full(got.detach()).cpu();
  EXPECT_TRUE(torch::allclose(whole, expected.detach(), kTolerance, kTolerance))
      << name << " differs by " << (whole - expected.detach()).abs().max().item<double>();
}

}  // namespace

void expect_trained_as_on_one_device(const TrainedModel& model, const Mesh& mesh, const Plan& plan) {
  SCOPED_TRACE(model.name + " on " + to_string(mesh) + ", " + plan.name);
  const auto plain = make(model);
  const auto expected = train(model, *plain, model.inputs, model.targets);

  const auto module = make(model);
  distribute_module(*module, mesh, plan.parameters, {.source = Source::same_everywhere});
  const auto got = train(model, *module, distribute(model.inputs, mesh, plan.batch, Source::same_everywhere),
                         distribute(model.targets, mesh, plan.batch, Source::same_everywhere));
  for (int step = 0; step < kSteps; ++step) {
    EXPECT_NEAR(got[static_cast<std::size_t>(step)], expected[static_cast<std::size_t>(step)], kTolerance) << step;
  }
  EXPECT_NE(expected.front(), expected.back());
  const auto parameters = plain->named_parameters();
  for (const auto& each : module->named_parameters()) {
    expect_close(each.key(), each.value(), parameters[each.key()]);
    const auto* planned = find_placements(plan.parameters, each.key());
    EXPECT_EQ(placements_of(each.value()), planned ? *planned : Placements(mesh.axes())) << each.key();
  }
  const auto buffers = plain->named_buffers();
  for (const auto& each : module->named_buffers()) expect_close(each.key(), each.value(), buffers[each.key()]);
}

}  // namespace lockstep::test
