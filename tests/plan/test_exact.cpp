// The exact search against trying everything.
#include <lockstep/plan/cost/program.h>
#include <lockstep/plan/search/exact.h>

#include "example_graphs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <random>

namespace lockstep {
namespace {

using plan::Assignment;
using plan::Decisions;
using plan::Improved;
using plan::Program;
using plan::Score;
using plan::Space;

int draw(std::mt19937& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
}

/// A small network with branches, some of whose weights are used twice.
plan::Graph random_graph(std::mt19937& random) {
  test::StepBuilder step;
  const std::int64_t batch = 1 << draw(random, 2, 6);
  const bool even = draw(random, 0, 1) == 0;
  const auto widths = [&] { return even ? std::int64_t{1} << draw(random, 2, 8) : std::int64_t{draw(random, 3, 100)}; };
  auto x = step.input("input", {batch, widths()});
  const int layers = draw(random, 1, 3);
  for (int i = 0; i < layers; ++i) {
    const auto name = "fc" + std::to_string(i);
    const bool square = draw(random, 0, 2) == 0;
    const auto y = step.linear(name, x, square ? step.sizes(x)[1] : widths());
    const auto active = draw(random, 0, 1) == 0 ? step.relu(y) : step.gelu(y);
    x = square ? step.add(x, active) : active;
  }
  if (draw(random, 0, 1) == 0) return step.train(x, step.input("target", {batch}, false));
  return step.train_towards(x, step.input("target", step.sizes(x)));
}

plan::Cluster random_cluster(std::mt19937& random, int devices) {
  plan::Cluster cluster{.nodes = draw(random, 0, 1) == 0 ? 1 : 2};
  cluster.devices_per_node = devices / cluster.nodes;
  cluster.intra_node = {.bandwidth = {std::pow(10.0, draw(random, 7, 10))},
                        .latency = {std::pow(10.0, draw(random, -7, -4))}};
  cluster.inter_node = {.bandwidth = {std::pow(10.0, draw(random, 6, 9))},
                        .latency = {std::pow(10.0, draw(random, -6, -4))}};
  cluster.device.operator_overhead = {1e-6};
  cluster.overlap = 0.25 * draw(random, 0, 4);
  return cluster;
}

/// Everything that there is to decide, one after the other.
class BruteForce {
 public:
  BruteForce(const Program& program, const Space& space, Decisions& decisions)
      : program_(program), space_(space), decisions_(decisions) {
    auto start = start_of(program, space, decisions);
    const std::size_t axes = space.mesh_sizes.size();
    for (std::size_t mask = 0; mask < (std::size_t{1} << axes); ++mask) {
      Placements inputs(axes);
      for (std::size_t axis = 0; axis < axes; ++axis) {
        if (((mask >> axis) & 1) != 0) inputs[axis] = Shard(0);
      }
      place_inputs(program, space, inputs, decisions, start);
      parameter(0, 0, start);
    }
  }
  std::size_t tried = 0;
  std::optional<Score> best;

 private:
  void parameter(std::size_t index, std::size_t axis, Assignment& now) {
    if (index == program_.parameters.size()) {
      ++tried;
      const auto score = score_of(simulate(program_, decisions_, now), decisions_.model());
      if (!best || plan::is_better(score, *best)) best = score;
      return;
    }
    if (axis == space_.mesh_sizes.size()) return parameter(index + 1, 0, now);
    const auto value = program_.parameters[index];
    const auto before = now[value];
    for (const auto& option : space_.by_axis[index][axis]) {
      auto lies = decisions_.placements(before);
      lies[axis] = option;
      if (!plan::may_lie(program_.values[value].info, lies, space_.mesh_sizes)) continue;
      now[value] = decisions_.number(lies);
      parameter(index, axis + 1, now);
    }
    now[value] = before;
  }

  const Program& program_;
  const Space& space_;
  Decisions& decisions_;
};

struct Count {
  int graphs = 0;
  int at_once = 0;
  std::size_t layouts = 0;
};

void compare(unsigned seed, const std::vector<int>& mesh, bool short_of_memory, Count& count) {
  std::mt19937 random(seed);
  const auto graph = random_graph(random);
  int devices = 1;
  for (const int size : mesh) devices *= size;
  auto cluster = random_cluster(random, devices);
  const auto program = plan::compile(graph);
  if (mesh.size() > 1 && program.parameters.size() > 4) return;  // trying everything would take too long
  auto model = plan::cost_model(cluster, mesh);
  if (short_of_memory) {
    Decisions decisions(program, mesh, model);
    const auto space = make_space(program, mesh, {});
    const auto whole = simulate(program, decisions, start_of(program, space, decisions)).memory.total();
    model.memory = whole * (0.05 * draw(random, 8, 19));
  }
  Decisions decisions(program, mesh, model);
  const auto space = make_space(program, mesh, {});
  const auto start = start_of(program, space, decisions);
  const Improved known{.assignment = start, .prediction = simulate(program, decisions, start)};
  const auto exact = search_exactly(program, space, decisions, known,
                                    {.rows = 50'000'000, .decisions = 1'000'000, .problems = 100'000});
  ASSERT_TRUE(exact) << "seed " << seed;
  BruteForce brute(program, space, decisions);
  const auto found = score_of(exact->best ? exact->best->prediction : known.prediction, model);
  ++count.graphs;
  count.layouts += brute.tried;
  if (brute.best->memory_shortage > plan::Bytes{}) {
    EXPECT_GT(found.memory_shortage.value, 0) << "nothing fits, seed " << seed;
    return;
  }
  EXPECT_EQ(found.memory_shortage.value, 0) << "seed " << seed;
  EXPECT_NEAR(found.cost.value, brute.best->cost.value, 1e-9 * brute.best->cost.value) << "seed " << seed;
  EXPECT_TRUE(exact->proven) << "seed " << seed;
  EXPECT_LE(exact->lower_bound.value, brute.best->cost.value * (1 + 1e-9)) << "seed " << seed;
}

TEST(Exact, CostsWhatTryingEverythingFinds) {
  Count count;
  for (unsigned seed = 0; seed < 260; ++seed) compare(seed, {4}, false, count);
  for (unsigned seed = 1000; seed < 1120; ++seed) compare(seed, {2, 2}, false, count);
  std::cout << count.graphs << " graphs, " << count.layouts << " layouts tried\n";
  EXPECT_GE(count.graphs, 300);
}

TEST(Exact, AlsoWhereMemoryIsShort) {
  Count count;
  for (unsigned seed = 2000; seed < 2100; ++seed) compare(seed, {4}, true, count);
  std::cout << count.graphs << " graphs, " << count.layouts << " layouts tried\n";
  EXPECT_EQ(count.graphs, 100);
}

TEST(Exact, EliminationFindsTheLeastSum) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const auto variables = static_cast<std::uint32_t>(draw(random, 2, 6));
    std::vector<plan::Table> tables;
    for (int i = draw(random, 1, 7); i > 0; --i) {
      plan::Table table;
      for (std::uint32_t v = 0; v < variables; ++v) {
        if (draw(random, 0, 2) == 0) table.variables.push_back(v);
      }
      std::size_t rows = 1;
      for (std::size_t v = 0; v < table.variables.size(); ++v) rows *= 3;
      for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t v = 0, rest = row; v < table.variables.size(); ++v, rest /= 3)
          table.values.push_back(static_cast<std::uint16_t>(rest % 3));
        table.costs.push_back(draw(random, -50, 50));
      }
      tables.push_back(std::move(table));
    }
    double least = 1e9;
    std::size_t all = 1;
    for (std::uint32_t v = 0; v < variables; ++v) all *= 3;
    for (std::size_t number = 0; number < all; ++number) {
      std::vector<std::size_t> value;
      for (std::size_t v = 0, rest = number; v < variables; ++v, rest /= 3) value.push_back(rest % 3);
      double sum = 0;
      for (const auto& table : tables) {
        std::size_t row = 0;
        for (std::size_t at = table.variables.size(); at-- > 0;) row = 3 * row + value[table.variables[at]];
        sum += table.costs[row];
      }
      least = std::min(least, sum);
    }
    std::size_t rows = 1'000'000;
    const auto found = plan::least_sum(tables, variables, rows);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->cost, least) << "round " << round;
  }
}

TEST(Exact, GivesUpInsteadOfTakingForever) {
  const auto program = plan::compile(test::gpt_step({.layers = 1}));
  Decisions decisions(program, {2, 2, 2},
                      plan::cost_model({.nodes = 1, .devices_per_node = 8}, std::vector<int>{2, 2, 2}));
  const auto space = make_space(program, {2, 2, 2}, {});
  const auto start = start_of(program, space, decisions);
  const Improved known{.assignment = start, .prediction = simulate(program, decisions, start)};
  EXPECT_FALSE(search_exactly(program, space, decisions, known, {.rows = 100, .decisions = 1'000, .problems = 10}));
}

}  // namespace
}  // namespace lockstep
