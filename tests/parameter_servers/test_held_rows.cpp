// What servers do after a loss: which goes back a step, which gets its rows from others, and when that cannot be.
#include <lockstep/base/error.h>
#include <lockstep/parameter_servers/server_rows.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "parameter_servers/update_rows.h"

namespace lockstep::parameter_servers {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr ServerMemory kNew{};
constexpr ServerMemory at(std::int64_t step) { return {.has_rows = true, .step = step, .remembers = false}; }
constexpr ServerMemory after(std::int64_t step) { return {.has_rows = true, .step = step, .remembers = true}; }

TEST(ServerMemories, AreReadAsPrinted) {
  for (const auto& memory : {kNew, at(0), at(12), after(7)}) EXPECT_EQ(parse_memory(print_memory(memory)), memory);
  for (const auto* text : {"", "+", "-1", "7++", "x", "new+"}) EXPECT_THROW(parse_memory(text), Error) << text;
}

TEST(RowsPlans, TakeBackTheStepOfThoseThatAreAhead) {
  const auto plan = plan_rows({after(8), after(7), at(7)}, 7, 1);
  EXPECT_EQ(plan.obstacle, "");
  EXPECT_THAT(plan.takes_back, ElementsAre(true, false, false));
  EXPECT_THAT(plan.takes_rows, ElementsAre(false, false, false));
}

TEST(RowsPlans, HaveAnObstacleWhereStepsDoNotFit) {
  EXPECT_THAT(plan_rows({after(7), at(8)}, 7, 1).obstacle, HasSubstr("server 1 has the rows after step 8"));
  EXPECT_THAT(plan_rows({after(6), after(7)}, 7, 2).obstacle, HasSubstr("server 0 has the rows after step 6"));
  EXPECT_THAT(plan_rows({after(9)}, 7, 1).obstacle, HasSubstr("step 9"));
}

TEST(RowsPlans, GiveALostServerItsRowsFromThoseBesideIt) {
  EXPECT_THAT(plan_rows({at(7), kNew}, 7, 1).obstacle, HasSubstr("the rows of server 1 are lost with it"));
  for (const std::size_t lost : {0U, 1U, 2U, 3U}) {
    std::vector<ServerMemory> servers(4, at(7));
    servers[lost] = kNew;
    servers[(lost + 1) % 4] = after(8);
    const auto plan = plan_rows(servers, 7, 2);
    EXPECT_EQ(plan.obstacle, "");
    EXPECT_TRUE(plan.takes_rows[lost]);
    EXPECT_TRUE(plan.takes_back[(lost + 1) % 4]);
  }
  EXPECT_EQ(plan_rows({kNew, at(7)}, 7, 2).obstacle, "");
  EXPECT_EQ(plan_rows({kNew, at(7), kNew, at(7)}, 7, 2).obstacle, "");
  EXPECT_THAT(plan_rows({at(7), kNew, kNew, at(7)}, 7, 2).obstacle, HasSubstr("one beside it"));
  EXPECT_THAT(plan_rows({kNew, kNew}, 7, 2).obstacle, HasSubstr("one beside it"));
}

TEST(HeldRows, AreThoseOfTheStepBeforeWhenItIsTakenBack) {
  const TableSpec table{.name = "t", .rows = 1000, .dim = 3, .seed = 5, .deviation = 0.1, .key = key_of("t")};
  const rows::RuleSettings rule{.rule = rows::Rule::lazy_adam, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};
  HeldRows once, back;
  for (auto* held : {&once, &back}) held->parts.emplace_back().emplace_back(table, rule);
  std::mt19937 random(3);
  const auto step = [&](HeldRows& held, const rows::SparseRows& gradients) {
    auto& shard = held.parts[0][0];
    shard.remember_from_here();
    // Two updates of a step, of which rows have the numbers before the first.
    for (int i = 0; i < 2; ++i) update_rows(shard, gradients, rows::row_update(rule, 0.1, shard.steps() + 1));
    ++held.step;
    held.remembers = true;
  };
  for (int i = 0; i < 20; ++i) {
    rows::SparseRows gradients, others;
    for (std::int64_t id = 0; id < table.rows; id += 1 + static_cast<std::int64_t>(random() % 40)) {
      gradients.ids.push_back(id);
      for (int k = 0; k < 3; ++k) gradients.values.push_back(static_cast<float>(random() % 100) / 50 - 1);
    }
    others.ids = {0, 3, 500 + i};
    others.values.assign(9, 0.5F);
    step(once, gradients);
    step(back, others);
    take_back_step(back);
    step(back, gradients);
    EXPECT_EQ(back.step, once.step);
  }
  const auto& of_once = once.parts[0][0];
  const auto& of_back = back.parts[0][0];
  EXPECT_EQ(of_once.steps(), of_back.steps());
  for (std::int64_t id = 0; id < table.rows; ++id) {
    std::array<float, 3> one{}, other{};
    of_once.read({&id, 1}, one.data());
    of_back.read({&id, 1}, other.data());
    EXPECT_EQ(one, other) << id;
  }
}

}  // namespace
}  // namespace lockstep::parameter_servers
