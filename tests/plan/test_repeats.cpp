#include <lockstep/plan/cost/program.h>
#include <lockstep/plan/cost/simulate.h>
#include <lockstep/plan/search/space.h>

#include "example_graphs.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

struct Both {
  explicit Both(plan::Graph from)
      : graph(std::move(from)), whole(plan::compile(graph)), folded(plan::fold_repeats(graph, whole)) {}
  plan::Graph graph;
  plan::Program whole;
  plan::Folded folded;
};

plan::Prediction of(const plan::Program& program, const plan::Cluster& cluster, const std::vector<int>& mesh,
                    const Placements& inputs, const ModulePlan& parameters) {
  plan::Decisions decisions(program, mesh, plan::cost_model(cluster, mesh));
  const auto space = plan::make_space(program, mesh, {.parameters = parameters, .inputs = inputs});
  return plan::simulate(program, decisions, plan::start_of(program, space, decisions));
}

TEST(Repeats, ManyLayersCostWhatTheyCost) {
  const Both gpt(test::gpt_step({.layers = 12}));
  EXPECT_EQ(gpt.folded.layers_left_out, 9U);
  EXPECT_LT(gpt.folded.program.steps.size(), gpt.whole.steps.size() / 3);
  const plan::Cluster cluster{.nodes = 1, .devices_per_node = 8};
  const std::vector<std::pair<Placements, ModulePlan>> layouts{
      {{Shard(0)}, {}},
      {{Replicate()}, {{"*fc1.*", {Shard(0)}}, {"*fc2.weight", {Shard(1)}}}},
      {{Shard(0)}, {{"*.weight", {Shard(0)}}}}};
  for (const auto& [inputs, parameters] : layouts) {
    const auto whole = of(gpt.whole, cluster, {8}, inputs, parameters);
    const auto folded = of(gpt.folded.program, cluster, {8}, inputs, parameters);
    EXPECT_NEAR(folded.cost.value, whole.cost.value, 0.02 * whole.cost.value);
    EXPECT_NEAR(folded.memory.total().value, whole.memory.total().value, 0.1 * whole.memory.total().value);
    EXPECT_NEAR(folded.memory.parameters.value, whole.memory.parameters.value, 1);
    EXPECT_NEAR(folded.compute.value, whole.compute.value, 1e-6 * whole.compute.value);
  }
}

TEST(Repeats, EveryParameterIsDecidedBySomebody) {
  const Both gpt(test::gpt_step({.layers = 7}));
  ASSERT_EQ(gpt.folded.decided_by.size(), gpt.whole.parameters.size());
  for (std::size_t i = 0; i < gpt.whole.parameters.size(); ++i) {
    const auto& mine = gpt.whole.values[gpt.whole.parameters[i]];
    const auto& other = gpt.folded.program.values[gpt.folded.decided_by[i]];
    EXPECT_EQ(other.kind, plan::ValueKind::parameter) << mine.name;
    EXPECT_EQ(other.info.sizes, mine.info.sizes) << mine.name;
  }
}

TEST(Repeats, FewLayersStayAsTheyAre) {
  const Both gpt(test::gpt_step({.layers = 3}));
  EXPECT_EQ(gpt.folded.layers_left_out, 0U);
  EXPECT_EQ(gpt.folded.program.steps.size(), gpt.whole.steps.size());
}

}  // namespace
}  // namespace lockstep
