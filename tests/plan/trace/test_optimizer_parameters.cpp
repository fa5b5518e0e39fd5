#include <lockstep/plan/graph.h>

#include <gtest/gtest.h>

namespace lockstep::plan {
namespace {

Node update(std::vector<std::size_t> inputs, std::vector<std::size_t> outputs) {
  return {
      .call = {}, .inputs = std::move(inputs), .outputs = std::move(outputs), .module = {}, .phase = Phase::optimizer};
}

Graph two_parameters() {
  Graph graph;
  for (const char* name : {"fc1.weight", "fc2.weight"}) {
    graph.values.push_back({.info = {}, .kind = ValueKind::parameter, .name = name});
    graph.values.push_back({.info = {}, .kind = ValueKind::gradient, .name = name});
    graph.values.push_back({.info = {}, .kind = ValueKind::optimizer_state, .name = {}});
  }
  for (const std::size_t at : {std::size_t{0}, std::size_t{3}}) {
    graph.nodes.push_back(update({at + 2, kNoValue}, {at + 2}));
    graph.nodes.push_back(update({at + 2, at + 1}, {at + 2}));
    graph.nodes.push_back(update({at, at + 2}, {at}));
  }
  return graph;
}

TEST(OptimizerParameters, StateGetsTheNameOfTheParameterThatItIsUsedWith) {
  auto graph = two_parameters();
  attribute_optimizer(graph);
  EXPECT_EQ(graph.values[2].name, "fc1.weight");
  EXPECT_EQ(graph.values[5].name, "fc2.weight");
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) EXPECT_EQ(graph.nodes[i].module, i < 3 ? "fc1" : "fc2") << i;
}

TEST(OptimizerParameters, WhatSeveralParametersShareIsNobodys) {
  auto graph = two_parameters();
  graph.nodes.push_back(update({1, 4}, {}));
  attribute_optimizer(graph);
  EXPECT_EQ(graph.values[2].name, "");
  EXPECT_EQ(graph.nodes[0].module, "");
}

}  // namespace
}  // namespace lockstep::plan
