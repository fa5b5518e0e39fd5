#include <lockstep/base/error.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/plan/search/search.h>

#include "example_graphs.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

plan::Plan small_plan() {
  auto plan = plan::search(test::gpt_step({.layers = 4}), {.nodes = 1, .devices_per_node = 4},
                           {.mesh = std::vector<int>{2, 2}});
  if (plan.parameters.empty()) plan.parameters = {{"blocks.*.fc1.weight", {Replicate(), Shard(0)}}};
  return plan;
}

TEST(PlanFile, IsReadAsItWasWritten) {
  const auto plan = small_plan();
  const auto text = plan::plan_json(plan);
  EXPECT_EQ(plan::plan_json(plan::read_plan(text, "plan.json")), text);
  const TemporaryFolder folder("plan");
  plan::save_plan(plan, folder.path() / "plan.json");
  EXPECT_EQ(plan::plan_json(plan::load_plan(folder.path() / "plan.json")), text);
}

TEST(PlanFile, HasWhatProgramsAskFor) {
  const auto json = nlohmann::json::parse(plan::plan_json(small_plan()));
  for (const char* key : {"cost_s", "memory_bytes", "search_s", "trace_s"})
    EXPECT_TRUE(json.at(key).is_number()) << key;
  EXPECT_EQ(json.at("plan_hash").get<std::string>().size(), 64U);
  ASSERT_FALSE(json.at("alternatives").empty());
  for (const char* key : {"name", "cost_s", "memory_bytes"})
    EXPECT_TRUE(json.at("alternatives")[0].contains(key)) << key;
}

TEST(PlanFile, DamageIsNoticed) {
  const auto text = plan::plan_json(small_plan());
  EXPECT_THROW(plan::read_plan("{}", "plan.json"), Error);
  EXPECT_THROW(plan::read_plan("no json", "plan.json"), Error);
  EXPECT_THROW(plan::read_plan(text.substr(0, text.size() / 2), "plan.json"), Error);
  const auto refusal = [](const std::string& broken) -> std::string {
    try {
      plan::read_plan(broken, "plan.json");
    } catch (const Error& error) {
      return error.what();
    }
    return "it was taken";
  };
  EXPECT_EQ(refusal("[]"),
            "[plan] this is no plan as `lockstep plan --json` writes it: there is a list where an object {...} "
            "should be (plan.json)");
  EXPECT_NE(refusal("{}").find("it has no \"format\""), std::string::npos) << refusal("{}");
  EXPECT_NE(refusal("{").find("it is not valid JSON at line 1"), std::string::npos) << refusal("{");
  auto wrong = nlohmann::ordered_json::parse(text);
  wrong["cluster"] = 3;
  EXPECT_NE(refusal(wrong.dump()).find("\"cluster\": there is a number where a text should be"), std::string::npos)
      << refusal(wrong.dump());
  auto json = nlohmann::ordered_json::parse(text);
  json["parameters"]["blocks.*.fc1.weight"] = "[Shard(1), Replicate()]";
  try {
    plan::read_plan(json.dump(), "plan.json");
    FAIL() << "the hash does not fit";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("plan_hash"), std::string::npos) << error.what();
  }
  json["plan_hash"] = "";
  EXPECT_NO_THROW(plan::read_plan(json.dump(), "plan.json"));
  json["parameters"]["blocks.*.fc1.weight"] = "[Shard(1)]";
  EXPECT_THROW(plan::read_plan(json.dump(), "plan.json"), Error);
}

TEST(PlanFile, OldPlansAreFittedToNewModels) {
  auto plan = small_plan();
  plan.parameters = {{"blocks.*.fc1.weight", {Replicate(), Shard(0)}}, {"gone.weight", {Shard(0), Replicate()}}};
  const auto hash = plan::plan_hash(plan);
  EXPECT_TRUE(plan::adapt(plan, plan.known).empty());
  plan = small_plan();
  plan.parameters = {{"blocks.*.fc1.weight", {Replicate(), Shard(0)}}};
  auto now = plan.known;
  now.push_back({.name = "blocks.4.fc1.weight", .sizes = {1024, 256}});
  const auto changes = plan::adapt(plan, now);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0], "blocks.4.fc1.weight is new; it is [Replicate(), Shard(0)]");
  EXPECT_NE(plan::plan_hash(plan), hash);
  const auto with_rows = [&](std::int64_t rows) {
    for (auto& each : now) {
      if (each.name.ends_with("fc1.weight")) each.sizes = {rows, 5};
    }
    plan::adapt(plan, now);
    return plan.parameters.size();
  };
  EXPECT_EQ(with_rows(3), 1U) << "two rows and one";
  EXPECT_EQ(with_rows(1), 0U) << "one row cannot be divided in two";
}

TEST(PlanFile, NamesBecomePatternsWhereAllLieAlike) {
  const Placements rows{Shard(0)};
  const Placements whole{Replicate()};
  EXPECT_EQ(plan::shortened({{"blocks.0.fc.weight", rows}, {"blocks.1.fc.weight", rows}, {"head", whole}}),
            (ModulePlan{{"blocks.*.fc.weight", rows}}));
  EXPECT_EQ(plan::shortened({{"blocks.0.fc.weight", rows}, {"blocks.1.fc.weight", whole}}),
            (ModulePlan{{"blocks.0.fc.weight", rows}}));
}

}  // namespace
}  // namespace lockstep
