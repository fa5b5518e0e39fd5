// Strategies of operators without weights: names, the placements that they mean, and what is wrong with bad ones.
#include <lockstep/global/operator_strategy.h>

#include "rules/sample_call.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using global::OperatorStrategy;
using test::call_of;

const std::vector<int> kMesh{2, 4};
const std::vector<std::string> kNames{"data", "model"};

std::string divided(const OperatorStrategy& strategy, const global::OpCall& call, const std::vector<int>& mesh = kMesh,
                    const std::vector<std::string>& names = kNames) {
  const auto signatures = global::signatures_of(strategy, call, global::find_rule(call.name), mesh, names);
  if (!signatures) return "none";
  std::string text;
  for (const auto& each : *signatures) {
    if (!text.empty()) text += ' ';
    text += test::shown(each);
  }
  return text;
}

TEST(OperatorStrategies, NamesAreThoseOfPeople) {
  EXPECT_EQ(global::operator_name("_softmax"), "softmax");
  EXPECT_EQ(global::operator_name("max_pool2d_with_indices"), "max_pool2d");
  EXPECT_EQ(global::operator_name("bmm"), "matmul");
  EXPECT_EQ(global::operator_name("relu"), "relu");
  EXPECT_TRUE(global::is_operator_name("softmax"));
  EXPECT_FALSE(global::is_operator_name("fc1"));
}

TEST(OperatorStrategies, ANameIsThatOfAllOperatorsInAModule) {
  const auto named = [](const std::string& module, const std::string& op) {
    return std::make_shared<const OperatorStrategy>(OperatorStrategy{.module = module, .op = op, .inputs = {{2, 1}}});
  };
  const global::OperatorStrategies all{named("blocks.0", "relu"), named("blocks.*", "softmax"), named("", "gelu"),
                                       named("fc", std::string(global::kOfWeights))};
  EXPECT_EQ(global::find_strategy(all, "blocks.0.fc1", "relu", false), all[0]);
  EXPECT_EQ(global::find_strategy(all, "blocks.0", "relu", false), all[0]);
  EXPECT_EQ(global::find_strategy(all, "blocks.1", "relu", false), nullptr);
  EXPECT_EQ(global::find_strategy(all, "blocks.10.attention", "_softmax", false), all[1]);
  EXPECT_EQ(global::find_strategy(all, "anything", "gelu", false), all[2]);
  EXPECT_EQ(global::find_strategy(all, "fc", "addmm", true), all[3]);
  EXPECT_EQ(global::find_strategy(all, "fc", "addmm", false), nullptr);
  EXPECT_EQ(global::find_strategy(all, "fc", "add", true), nullptr);
}

TEST(OperatorStrategies, PartsBecomePlacements) {
  const auto relu = call_of("relu", {{"self", {8, 12}}}, {{8, 12}});
  EXPECT_EQ(divided({.module = {}, .op = "relu", .inputs = {{2, 4}}}, relu), "S0->S0 S1->S1");
  EXPECT_EQ(divided({.module = {}, .op = "relu", .inputs = {{4, 2}}}, relu), "S1->S1 S0->S0");
  EXPECT_EQ(divided({.module = {}, .op = "relu", .inputs = {{8, 1}}}, relu), "S0->S0 S0->S0");
  EXPECT_EQ(divided({.module = {}, .op = "relu", .inputs = {{1, 1}}}, relu), "R->R R->R");
  EXPECT_EQ(divided({.module = {}, .op = "relu", .inputs = {{2, 2}}}, relu), "none");
  // Where both ways are possible, the batch is along the axis `data`.
  EXPECT_EQ(divided({.module = {}, .op = "relu", .inputs = {{2, 2}}}, relu, {2, 2}, {"model", "data"}),
            "S1->S1 S0->S0");
  EXPECT_EQ(divided({.module = {}, .op = "relu", .inputs = {{2, 2}}}, relu, {2, 2}, {}), "S0->S0 S1->S1");
  const auto bmm = call_of("bmm", {{"self", {8, 6, 4}}, {"mat2", {8, 4, 6}}}, {{8, 6, 6}});
  EXPECT_EQ(divided({.module = {}, .op = "matmul", .inputs = {{2, 1, 4}, {2, 4, 1}}}, bmm), "S0,S0->S0 S2,S1->P");
  EXPECT_EQ(divided({.module = {}, .op = "matmul", .inputs = {{2, 1, 4}, {2, 1, 1}}}, bmm), "none");
}

TEST(OperatorStrategies, OutputsGetPlacementsOfTheirOwn) {
  const auto bmm = call_of("bmm", {{"self", {8, 8, 4}}, {"mat2", {8, 4, 6}}}, {{8, 8, 6}});
  const OperatorStrategy strategy{.module = {}, .op = "matmul", .outputs = {{2, 4, 1}}};
  // The sum over `model` is not gathered, but reduced into parts.
  EXPECT_EQ(to_string(global::outputs_of(strategy, bmm, {{Shard(0), Partial()}}, kMesh)[0]), "[Shard(0), Shard(1)]");
  EXPECT_EQ(to_string(global::outputs_of({.module = {}, .op = "matmul"}, bmm, {{Shard(0), Partial()}}, kMesh)[0]),
            "[Shard(0), Partial(sum)]");
}

TEST(OperatorStrategies, MistakesAreNamed) {
  const auto relu = call_of("relu", {{"self", {8, 10}}}, {{8, 10}});
  const auto mistake = [&](const Strategy& inputs, const Strategy& outputs = {}) {
    return global::mistake_in({.module = {}, .op = "relu", .inputs = inputs, .outputs = outputs}, relu, 8);
  };
  EXPECT_EQ(mistake({{2, 2}}), "");
  EXPECT_NE(mistake({{2, 1}, {2, 1}}).find("2 tuple(s) are given for the inputs, but the operator reads 1"),
            std::string::npos);
  EXPECT_NE(mistake({{2, 1, 1}}).find("input 0: (2, 1, 1) has 3 numbers, but the tensor [8, 10] has 2 dimensions"),
            std::string::npos);
  EXPECT_NE(mistake({{1, 4}}).find("dimension 1 of the tensor [8, 10] does not divide into 4 equal parts"),
            std::string::npos);
  EXPECT_NE(mistake({{8, 2}}).find("more parts than there are devices, 8"), std::string::npos);
  EXPECT_NE(mistake({{4294967296, 4294967296}}).find("more parts than there are devices"), std::string::npos);
  EXPECT_NE(mistake({}, {{2, 1}, {2, 1}}).find("the operator has 1"), std::string::npos);
  EXPECT_NE(mistake({}, {{1, 4}}).find("output 0: dimension 1"), std::string::npos);
  const auto on_mesh = [](const OperatorStrategy& strategy, const global::OpCall& call) {
    return global::mistake_on_mesh(strategy, call, global::find_rule(call.name), kMesh, kNames);
  };
  EXPECT_EQ(on_mesh({.module = {}, .op = "relu", .inputs = {{2, 1}}}, relu), "");
  EXPECT_EQ(on_mesh({.module = {}, .op = "relu", .inputs = {{2, 2}}}, relu),
            "the mesh 2x4 (data, model) has no axes for the parts (2, 2)");
  const auto pool = call_of("max_pool2d_with_indices", {{"self", {8, 4, 8, 8}}}, {{8, 4, 4, 4}, {8, 4, 4, 4}});
  EXPECT_NE(on_mesh({.module = {}, .op = "max_pool2d", .inputs = {{2, 1, 4, 1}}}, pool)
                .find("what can be divided: batch and channels"),
            std::string::npos);
}

TEST(OperatorStrategies, AreWrittenAsTheyAreRead) {
  EXPECT_EQ(global::strategy_text({.module = {}, .op = "relu", .inputs = {{2, 1}}}), "((2, 1))");
  EXPECT_EQ(global::strategy_text({.module = {}, .op = "add", .inputs = {{2, 1}, {2, 1}}, .outputs = {{1, 2}}}),
            "((2, 1), (2, 1)) -> ((1, 2))");
  EXPECT_EQ(parse_strategy(global::to_string(Strategy{{2, 1}, {4}})), (Strategy{{2, 1}, {4}}));
}

}  // namespace
}  // namespace lockstep
