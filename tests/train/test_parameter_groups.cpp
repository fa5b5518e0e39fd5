// Settings of single parameters: optimizer.groups, optimizer.no_decay and model.freeze.
#include <lockstep/base/config.h>
#include <lockstep/models/registry.h>
#include <lockstep/train/configuration/read_config.h>
#include <lockstep/train/optimizer/parameter_groups.h>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>

#include "base/expect_error.h"

namespace lockstep::train {
namespace {

using test::expect_error;

constexpr std::string_view kGroupsRun =
    "model: {name: mlp}\n"
    "data: {name: mnist, root: data}\n"
    "optimizer: {lr: 0.1, weight_decay: 0.5}\n"
    "train: {epochs: 2}\n";

ResolvedRun grouped_run(std::vector<std::string> overrides) {
  return read_run_config(parse_config(kGroupsRun, "run.yaml", overrides));
}

/// A convolution with a bias, a batch norm, a linear layer, and a loose vector.
NamedParameters some_parameters() {
  NamedParameters parameters;
  const auto add = [&](const std::string& name, at::IntArrayRef sizes) {
    parameters.emplace_back(name, torch::ones(sizes, torch::kDouble).requires_grad_());
  };
  add("conv.weight", {2, 3, 1, 1});
  add("conv.bias", {2});
  add("bn.weight", {2});
  add("bn.bias", {2});
  add("fc.weight", {4, 2});
  add("fc.bias", {4});
  add("scale", {3});
  return parameters;
}

std::map<std::string, ParameterSettings> settings(const std::vector<std::string>& overrides) {
  std::map<std::string, ParameterSettings> by_name;
  const auto parameters = some_parameters();
  const auto all = settings_of(grouped_run(overrides), parameters);
  for (std::size_t i = 0; i < all.size(); ++i) by_name[parameters[i].first] = all[i];
  return by_name;
}

std::string without_decay(const std::string& no_decay) {
  std::string names;
  for (const auto& [name, each] : settings({"optimizer.no_decay=" + no_decay})) {
    if (each.weight_decay == 0) names += name + " ";
  }
  return names;
}

TEST(ParameterGroups, TheFirstMatchCounts) {
  const auto found =
      settings({"optimizer.groups=[{match: fc.bias, lr_factor: 3}, {match: [\"fc.*\", conv.weight], lr_factor: 10, "
                "weight_decay: 0.25}]"});
  EXPECT_EQ(found.at("fc.bias"), (ParameterSettings{3, 0.5}));
  EXPECT_EQ(found.at("fc.weight"), (ParameterSettings{10, 0.25}));
  EXPECT_EQ(found.at("conv.weight"), (ParameterSettings{10, 0.25}));
  EXPECT_EQ(found.at("conv.bias"), (ParameterSettings{1, 0.5}));
}

TEST(ParameterGroups, NoDecayIsOfOneDimension) {
  EXPECT_EQ(without_decay("[]"), "");
  EXPECT_EQ(without_decay("[biases]"), "bn.bias conv.bias fc.bias ");
  EXPECT_EQ(without_decay("[norms]"), "bn.bias bn.weight scale ");
  EXPECT_EQ(without_decay("[norms, biases]"), "bn.bias bn.weight conv.bias fc.bias scale ");
}

TEST(ParameterGroups, AGroupsOwnWeightDecayCountsBeforeNoDecay) {
  const auto found = settings({"optimizer.no_decay=[biases]",
                               "optimizer.groups=[{match: fc.*, lr_factor: 2}, {match: bn.*, weight_decay: 0.1}]"});
  EXPECT_EQ(found.at("fc.bias"), (ParameterSettings{2, 0}));
  EXPECT_EQ(found.at("fc.weight"), (ParameterSettings{2, 0.5}));
  EXPECT_EQ(found.at("bn.bias"), (ParameterSettings{1, 0.1}));
}

TEST(ParameterGroups, MistakesAreNamed) {
  const auto expect = [](const std::string& groups, std::initializer_list<std::string_view> words) {
    expect_error(ErrorKind::config, words, [&] { grouped_run({"optimizer.groups=" + groups}); });
  };
  expect("{match: fc.*}", {"optimizer.groups", "a list"});
  expect("[fc.*]", {"optimizer.groups[0]", "lr_factor"});
  expect("[{lr_factor: 2}]", {"optimizer.groups[0].match", "pattern"});
  expect("[{match: []}]", {"optimizer.groups[0].match", "pattern"});
  expect("[{match: fc.*}, {match: bn.*, lr_fctor: 2}]", {"optimizer.groups[1]", "lr_fctor"});
  expect("[{match: fc.*, lr_factor: -1}]", {"optimizer.groups[0].lr_factor", "-1"});
  expect("[{match: fc.*, weight_decay: much}]", {"optimizer.groups[0].weight_decay", "much"});
  expect_error(ErrorKind::config, {"optimizer.groups[1].match", "fc.wieght", "did you mean 'fc.weight'"},
               [] { settings({"optimizer.groups=[{match: fc.*}, {match: fc.wieght}]"}); });
  expect_error(ErrorKind::config, {"encoder.*", "conv.weight", "scale"},
               [] { settings({"optimizer.groups=[{match: encoder.*}]"}); });
}

class EachOptimizer : public testing::TestWithParam<std::string> {};

/// Gradients of one step, so that the update shows the learning rate and the decay.
TEST_P(EachOptimizer, UpdatesGroupsWithTheirSettings) {
  const auto step = [](const std::vector<std::string>& overrides) {
    auto options = overrides;
    options.push_back("optimizer.name=" + GetParam());
    const auto parameters = some_parameters();
    const auto optimizer = make_optimizer(grouped_run(options), parameters);
    set_learning_rate(*optimizer, 0.2);
    for (int i = 0; i < 2; ++i) {
      for (const auto& [name, parameter] : parameters) parameter.mutable_grad() = parameter.detach() * 0.3;
      optimizer->step();
    }
    std::map<std::string, at::Tensor> values;
    for (const auto& [name, parameter] : parameters) values[name] = parameter.detach();
    return values;
  };
  const auto grouped = step({"optimizer.no_decay=[biases]", "optimizer.groups=[{match: fc.*, lr_factor: 0.5}]"});
  const auto plain = step({});
  auto undecayed = step({"optimizer.weight_decay=0"});
  const auto half = step({"optimizer.groups=[{match: \"*\", lr_factor: 0.5}]"});
  const auto half_undecayed = step({"optimizer.groups=[{match: \"*\", lr_factor: 0.5, weight_decay: 0}]"});
  EXPECT_TRUE(torch::equal(grouped.at("conv.weight"), plain.at("conv.weight")));
  EXPECT_TRUE(torch::equal(grouped.at("conv.bias"), undecayed.at("conv.bias")));
  EXPECT_TRUE(torch::equal(grouped.at("fc.weight"), half.at("fc.weight")));
  EXPECT_TRUE(torch::equal(grouped.at("fc.bias"), half_undecayed.at("fc.bias")));
  EXPECT_FALSE(torch::equal(half.at("fc.weight"), plain.at("fc.weight")));
}

INSTANTIATE_TEST_SUITE_P(All, EachOptimizer,
                         testing::Values("momentum", "adam", "adamw", "rmsprop", "adagrad", "lars", "lamb", "muon"),
                         [](const auto& each) { return each.param; });

TEST(ParameterGroups, OfPiecesAreThoseOfTheirParameters) {
  const auto parameters = some_parameters();
  const auto config = grouped_run({"optimizer.name=sgd", "optimizer.no_decay=[norms, biases]",
                                   "optimizer.groups=[{match: fc.weight, lr_factor: 10}]"});
  // Two pieces of the fully connected layer's weight, and its bias: all of one dimension.
  const std::vector<at::Tensor> pieces{torch::ones({5}), torch::ones({3}), torch::ones({4})};
  const auto optimizer = make_optimizer(config, parameters, pieces, {4, 4, 5});
  set_learning_rate(*optimizer, 0.01);
  for (const auto& piece : pieces) piece.mutable_grad() = torch::ones_like(piece);
  optimizer->step();
  EXPECT_NEAR(pieces[0][0].item<double>(), 1 - 0.1 * 1.5, 1e-6);
  EXPECT_NEAR(pieces[1][0].item<double>(), 1 - 0.1 * 1.5, 1e-6);
  EXPECT_NEAR(pieces[2][0].item<double>(), 1 - 0.01, 1e-6);
  expect_error(ErrorKind::config, {"lamb", "pieces"}, [&] {
    make_optimizer(grouped_run({"optimizer.name=lamb"}), parameters, pieces, {4, 4, 5});
  });
}

TEST(ParameterGroups, AreDescribed) {
  EXPECT_EQ(describe_groups(grouped_run({}), some_parameters()), "");
  EXPECT_EQ(
      describe_groups(grouped_run({"optimizer.no_decay=[biases]", "optimizer.groups=[{match: scale, lr_factor: 0.1}]"}),
                      some_parameters()),
      "# learning rate x 1, weight decay 0.5: 3 parameter(s) with 16 numbers, conv.weight, ...\n"
      "# learning rate x 1, weight decay 0: 3 parameter(s) with 8 numbers, conv.bias, ...\n"
      "# learning rate x 0.1, weight decay 0.5: 1 parameter(s) with 3 numbers, scale\n");
}

models::Classifier resnet() {
  return models::make_classifier(
      {.name = "resnet20", .num_classes = 10, .in_channels = 3, .in_features = 3072, .hidden = {}});
}

TEST(Freeze, TakesParametersOutOfTraining) {
  const auto model = resnet();
  const auto all = trainable_parameters(*model.module).size();
  freeze_parameters(*model.module, {"conv1.*", "layer?.0.bn*"});
  const auto left = trainable_parameters(*model.module);
  EXPECT_EQ(left.size(), all - 1 - 3 * 4);
  for (const auto& [name, parameter] : left) {
    EXPECT_FALSE(name.starts_with("conv1.") || name.find(".0.bn") != std::string::npos) << name;
  }
}

TEST(Freeze, StatisticsOfBatchNormGoOn) {
  const auto model = resnet();
  freeze_parameters(*model.module, {"bn1.*", "conv1.*"});
  model.module->train();
  const auto before = model.module->named_buffers()["bn1.running_mean"].clone();
  model.forward(torch::randn({4, 3, 32, 32}));
  EXPECT_FALSE(torch::equal(model.module->named_buffers()["bn1.running_mean"], before));
}

TEST(Freeze, MistakesAreNamed) {
  const auto model = resnet();
  expect_error(ErrorKind::config, {"model.freeze", "conv1.wieght", "conv1.weight"},
               [&] { freeze_parameters(*model.module, {"conv1.wieght"}); });
  expect_error(ErrorKind::config, {"model.freeze", "nothing to train"},
               [&] { freeze_parameters(*model.module, {"*"}); });
}

TEST(Freeze, StateOfFrozenParametersIsLeftOut) {
  const auto model = resnet();
  freeze_parameters(*model.module, {"conv1.*"});
  const auto left = without_frozen(
      {{"conv1.weight.exp_avg", torch::ones({1})}, {"fc.weight.exp_avg", torch::ones({1})}}, *model.module);
  EXPECT_EQ(left.size(), 1U);
  EXPECT_TRUE(left.contains("fc.weight.exp_avg"));
}

}  // namespace
}  // namespace lockstep::train
