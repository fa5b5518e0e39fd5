// A traced step is the step that libtorch runs.
#include <lockstep/base/error.h>
#include <lockstep/compat/attention.h>
#include <lockstep/models/gpt.h>
#include <lockstep/models/picture_models.h>
#include <lockstep/plan/trace/trace_step.h>

#include "real_step.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace lockstep::plan {
namespace {

using Optimizer = std::unique_ptr<torch::optim::Optimizer>;
using MakeOptimizer = std::function<Optimizer(std::vector<at::Tensor>)>;

Optimizer momentum(std::vector<at::Tensor> parameters) {
  return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(0.1).momentum(0.9));
}
Optimizer adam(std::vector<at::Tensor> parameters) { return std::make_unique<torch::optim::Adam>(parameters); }
Optimizer adamw(std::vector<at::Tensor> parameters) { return std::make_unique<torch::optim::AdamW>(parameters); }

struct Case {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> forward;
  at::Tensor inputs;
  at::Tensor labels;

  StepProgram program(MakeOptimizer optimizer = momentum) const {
    auto examples = examples_of({inputs, labels});
    examples[0].name = "pictures";
    examples[1].name = "labels";
    return {.module = module.get(),
            .inputs = examples,
            .loss = [forward = forward](const auto& in) { return torch::cross_entropy_loss(forward(in[0]), in[1]); },
            .optimizer = std::move(optimizer)};
  }
};

Case mlp() {
  const auto module = std::make_shared<models::Mlp>(12, std::vector<std::int64_t>{16, 10}, 7);
  return {module, [module](const at::Tensor& in) { return module->forward(in); }, torch::randn({5, 12}),
          torch::randint(7, {5}, torch::kLong)};
}

Case resnet20() {
  const auto module = models::resnet20(10, 3);
  return {module, [module](const at::Tensor& in) { return module->forward(in); }, torch::randn({4, 3, 16, 16}),
          torch::randint(10, {4}, torch::kLong)};
}

Case gpt() {
  const auto module = models::gpt({.vocabulary = 19, .context = 8, .layers = 2, .heads = 4, .width = 16});
  return {module, [module](const at::Tensor& in) { return module->forward(in).transpose(1, 2); },
          torch::randint(19, {5, 6}, torch::kLong), torch::randint(19, {5, 6}, torch::kLong)};
}

test::CallCounts real_calls(const Case& of, const MakeOptimizer& make_optimizer) {
  const auto optimizer = make_optimizer(of.module->parameters());
  const auto step = [&] {
    torch::cross_entropy_loss(of.forward(of.inputs), of.labels).backward();
    optimizer->step();
  };
  step();
  of.module->zero_grad(/*set_to_none=*/true);
  return test::calls_of(step);
}

/// What one device is asked for, of operators that are not made of others there, and not taken apart here.
void expect_as_in_reality(const Case& of, const MakeOptimizer& optimizer, std::vector<std::string> operators) {
  const auto real = real_calls(of, optimizer);
  const auto traced = test::calls_of(trace_step(of.program(optimizer)));
  for (const auto& [call, count] : real) {
    const std::string name = call.substr(0, call.find(' '));
    if (std::find(operators.begin(), operators.end(), name) == operators.end()) continue;
    const auto found = traced.find(call);
    EXPECT_EQ(found == traced.end() ? 0 : found->second, count) << call;
  }
  for (const auto& name : operators) {
    const auto called = [&](const auto& counts) {
      int sum = 0;
      for (const auto& [call, count] : counts) sum += call.substr(0, call.find(' ')) == name ? count : 0;
      return sum;
    };
    EXPECT_GT(called(real), 0) << name;
    EXPECT_EQ(called(real), called(traced)) << name;
  }
}

const Node& first_of(const Graph& graph, std::string_view op, Phase phase = Phase::forward) {
  const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                  [&](const Node& node) { return node.call.name == op && node.phase == phase; });
  if (found == graph.nodes.end()) throw std::runtime_error("no " + std::string(op) + " in the graph");
  return *found;
}

std::vector<std::string> modules_of(const Graph& graph, const std::string& op, Phase phase) {
  std::vector<std::string> modules;
  for (const auto& node : graph.nodes) {
    if (node.call.name == op && node.phase == phase) modules.push_back(node.module);
  }
  return modules;
}

TEST(TraceStep, AnMlpsStepIsWhatLibtorchRuns) {
  expect_as_in_reality(
      mlp(), momentum,
      {"addmm", "relu", "_log_softmax", "nll_loss_forward", "nll_loss_backward", "mm", "threshold_backward", "sum"});
}

TEST(TraceStep, AResNetsStepIsWhatLibtorchRuns) {
  expect_as_in_reality(resnet20(), momentum,
                       {"convolution", "native_batch_norm", "relu", "addmm", "convolution_backward",
                        "native_batch_norm_backward", "threshold_backward"});
}

TEST(TraceStep, AGptsStepIsWhatLibtorchRuns) {
  std::vector<std::string> operators = {"embedding",
                                        "native_layer_norm",
                                        "gelu",
                                        "embedding_dense_backward",
                                        "native_layer_norm_backward",
                                        "gelu_backward",
                                        "addcmul",
                                        "addcdiv",
                                        "sqrt"};
  // Else one device has a kernel for attention, and the plan its parts, which can be divided.
  if (!compat::kFusedAttention) operators.insert(operators.end(), {"_softmax", "_softmax_backward_data"});
  expect_as_in_reality(gpt(), adam, operators);
}

TEST(TraceStep, ShapesAreThoseOfTheStep) {
  const auto graph = trace_step(resnet20().program());
  const auto& stem = first_of(graph, "convolution");
  EXPECT_EQ(stem.call.tensors[0].sizes, (global::Sizes{4, 3, 16, 16}));
  EXPECT_EQ(stem.call.outputs.at(0).sizes, (global::Sizes{4, 16, 16, 16}));
  const auto& last = first_of(graph, "addmm");
  EXPECT_EQ(last.call.outputs.at(0).sizes, (global::Sizes{4, 10}));
  EXPECT_FALSE(first_of(graph, "nll_loss_forward").call.tensors[1].floating);
  // Pictures need no gradient.
  const auto backward = std::find_if(graph.nodes.rbegin(), graph.nodes.rend(),
                                     [](const Node& node) { return node.call.name == "convolution_backward"; });
  EXPECT_EQ(backward->outputs[0], kNoValue);
  EXPECT_FALSE(backward->call.outputs[0].defined);
  EXPECT_NE(backward->outputs[1], kNoValue);
}

TEST(TraceStep, EveryInputIsAValueOfItsShapeThatWasThereBefore) {
  for (const auto& each : {mlp(), resnet20(), gpt()}) {
    const auto graph = trace_step(each.program(adamw));
    std::vector<bool> there(graph.values.size());
    for (std::size_t i = 0; i < graph.values.size(); ++i) {
      const auto kind = graph.values[i].kind;
      there[i] = kind != ValueKind::activation && kind != ValueKind::gradient;
    }
    for (const auto& node : graph.nodes) {
      ASSERT_EQ(node.inputs.size(), node.call.tensors.size()) << node.call.name;
      ASSERT_EQ(node.outputs.size(), node.call.outputs.size()) << node.call.name;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] == kNoValue) continue;
        EXPECT_TRUE(there.at(node.inputs[i])) << node.call.name << " of " << node.module;
        EXPECT_EQ(graph.values[node.inputs[i]].info.sizes, node.call.tensors[i].sizes) << node.call.name;
      }
      for (const std::size_t value : node.outputs) {
        if (value != kNoValue) there.at(value) = true;
      }
      if (node.call.in_place) {
        EXPECT_EQ(node.inputs[0], node.outputs[0]) << node.call.name;
      }
    }
  }
}

TEST(TraceStep, ParametersGradientsAndOptimizerStateHaveTheParametersName) {
  const auto model = gpt();
  const auto graph = trace_step(model.program(adam));
  const auto count = [&](ValueKind kind, const std::string& name) {
    return std::count_if(graph.values.begin(), graph.values.end(),
                         [&](const Value& value) { return value.kind == kind && value.name == name; });
  };
  for (const auto& each : model.module->named_parameters()) {
    EXPECT_EQ(count(ValueKind::parameter, each.key()), 1) << each.key();
    EXPECT_EQ(count(ValueKind::gradient, each.key()), 1) << each.key();
    EXPECT_EQ(count(ValueKind::optimizer_state, each.key()), 2) << each.key();  // two moments
  }
  EXPECT_EQ(count(ValueKind::optimizer_state, ""), 0);
  EXPECT_EQ(count(ValueKind::input, "labels"), 1);
}

TEST(TraceStep, OperatorsBelongToModulesAndDerivativesToTheirOperators) {
  const auto graph = trace_step(gpt().program());
  using Names = std::vector<std::string>;
  EXPECT_EQ(modules_of(graph, "_softmax", Phase::forward), (Names{"blocks.0.attention", "blocks.1.attention"}));
  EXPECT_EQ(modules_of(graph, "_softmax_backward_data", Phase::backward),
            (Names{"blocks.1.attention", "blocks.0.attention"}));
  EXPECT_EQ(modules_of(graph, "gelu", Phase::forward), (Names{"blocks.0.fc1", "blocks.1.fc1"}));
  EXPECT_EQ(modules_of(graph, "gelu_backward", Phase::backward), (Names{"blocks.1.fc1", "blocks.0.fc1"}));
  EXPECT_EQ(modules_of(graph, "native_layer_norm_backward", Phase::backward),
            (Names{"norm", "blocks.1.norm2", "blocks.1.norm1", "blocks.0.norm2", "blocks.0.norm1"}));
  const auto adds = modules_of(graph, "add", Phase::forward);
  EXPECT_EQ(std::count(adds.begin(), adds.end(), "blocks.0"), 2);  // residuals
  EXPECT_EQ(std::count(adds.begin(), adds.end(), "blocks.1"), 2);
  for (const auto& node : graph.nodes) {
    if (node.phase == Phase::optimizer) {
      EXPECT_NE(node.module, "") << node.call.name;
    }
  }
}

TEST(TraceStep, TheResidualsOfAResNetBelongToTheirBlocks) {
  const auto graph = trace_step(resnet20().program());
  const auto adds = modules_of(graph, "add", Phase::forward);
  EXPECT_EQ(std::count(adds.begin(), adds.end(), "layer1.0"), 1);
  EXPECT_EQ(std::count(adds.begin(), adds.end(), "layer3.2"), 1);
}

TEST(TraceStep, TheModuleIsAsBefore) {
  const auto model = resnet20();
  std::vector<at::Tensor> before;
  for (const auto& each : model.module->parameters()) before.push_back(each.detach().clone());
  torch::cross_entropy_loss(model.forward(model.inputs), model.labels).backward();
  const auto gradient = model.module->parameters()[0].grad().clone();
  const auto mean = model.module->buffers()[0].clone();
  trace_step(model.program());
  const auto after = model.module->parameters();
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(torch::equal(after[i], before[i])) << i;
  EXPECT_TRUE(torch::equal(after[0].grad(), gradient));
  EXPECT_TRUE(torch::equal(model.module->buffers()[0], mean));
  EXPECT_NO_THROW(torch::cross_entropy_loss(model.forward(model.inputs), model.labels).backward());
}

TEST(TraceStep, TheSameStepGivesTheSameGraph) {
  const auto one = trace_step(gpt().program(adam));
  const auto other = trace_step(gpt().program(adam));
  ASSERT_EQ(one.nodes.size(), other.nodes.size());
  for (std::size_t i = 0; i < one.nodes.size(); ++i) {
    EXPECT_EQ(one.nodes[i].inputs, other.nodes[i].inputs);
    EXPECT_EQ(one.nodes[i].module, other.nodes[i].module);
  }
}

std::string refusal_of(const Case& of, const std::function<at::Tensor(const at::Tensor&)>& change) {
  auto program = of.program();
  program.loss = [&](const std::vector<at::Tensor>& in) { return change(of.forward(in[0])); };
  try {
    trace_step(program);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(TraceStep, WhatDependsOnNumbersIsRefusedByName) {
  const auto model = mlp();
  const auto item =
      refusal_of(model, [](const at::Tensor& y) { return y.sum().item<float>() > 0 ? y.sum() : -y.sum(); });
  EXPECT_NE(item.find("aten::_local_scalar_dense takes a number out of a tensor"), std::string::npos) << item;
  EXPECT_NE(item.find("torch::where"), std::string::npos) << item;
  const auto mask = refusal_of(model, [](const at::Tensor& y) { return y.masked_select(y > 0).sum(); });
  EXPECT_NE(mask.find("masked_select gives a tensor whose shape cannot be determined"), std::string::npos) << mask;
  const auto copy = refusal_of(model, [](const at::Tensor& y) { return y.sum() * y.cpu().sum(); });
  EXPECT_NE(copy.find("takes a number out"), std::string::npos) << copy;
  const auto mixed = refusal_of(model, [](const at::Tensor& y) { return (y * torch::ones({5, 7})).sum(); });
  EXPECT_NE(mixed.find("is an ordinary tensor"), std::string::npos) << mixed;
  const auto vector = refusal_of(model, [](const at::Tensor& y) { return y; });
  EXPECT_NE(vector.find("a tensor of shape [5, 7]"), std::string::npos) << vector;
}

TEST(TraceStep, WhatIsDoneWithGradientsIsPartOfIt) {
  auto program = mlp().program();
  program.prepare_gradients = [](const std::vector<at::Tensor>& parameters) {
    const torch::NoGradGuard no_grad;
    std::vector<at::Tensor> norms;
    for (const auto& each : parameters) norms.push_back(each.grad().norm(2));
    const auto factor = 1 / torch::stack(norms).norm(2);
    for (const auto& each : parameters) each.grad().mul_(factor);
  };
  const auto graph = trace_step(program);
  std::vector<std::string> scaled;
  std::size_t stacks = 0;
  for (const auto& node : graph.nodes) {
    if (node.phase != Phase::optimizer || node.inputs.empty() || node.inputs[0] == kNoValue) continue;
    const auto& first = graph.values[node.inputs[0]];
    if (node.call.name == "mul" && first.kind == ValueKind::gradient)
      scaled.push_back(first.name + " of " + node.module);
    if (node.call.name == "stack") stacks += node.inputs.size();
  }
  const auto parameters = mlp().module->named_parameters();
  EXPECT_EQ(stacks, parameters.size());
  ASSERT_EQ(scaled.size(), parameters.size());
  EXPECT_EQ(scaled[0], "fc1.weight of fc1");
  for (const auto& value : graph.values) {
    if (value.kind == ValueKind::optimizer_state) {
      EXPECT_NE(value.name, "") << "its parameter is still known";
    }
  }
}

}  // namespace
}  // namespace lockstep::plan
