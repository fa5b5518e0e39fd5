#include <lockstep/plan/report/explain.h>
#include <lockstep/plan/search/search.h>

#include "example_graphs.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <string>

namespace lockstep {
namespace {

plan::Plan block_plan() {
  return plan::search(test::gpt_step({.layers = 4}), {.name = "a <small> cluster", .nodes = 1, .devices_per_node = 4},
                      {.mesh = std::vector<int>{2, 2}});
}

TEST(Explain, SaysWhatWasDecidedAndWhy) {
  const auto text = plan::explain(block_plan());
  for (const char* what : {"A step takes", "data_parallel", "zero3", "megatron", "auto", "blocks.*.fc1", "x4",
                           "(without parameters)", "parameters", "second best placement"}) {
    EXPECT_NE(text.find(what), std::string::npos) << what << "\n" << text;
  }
}

TEST(Explain, OneDeviceIsNotSeveral) {
  const auto text = plan::explain(plan::search(test::gpt_step({.layers = 1}), {.name = "this", .nodes = 1}));
  EXPECT_TRUE(text.starts_with("Plan for 1 device of \"this\"")) << text;
}

TEST(Explain, TheNextBestWayIsNamedAsWhatWasChosen) {
  const auto plan = block_plan();
  bool any = false;
  for (const auto& row : plan.modules) {
    any = any || !row.runner_up.empty();
    EXPECT_EQ(row.runner_up.find("Shard"), std::string::npos) << row.runner_up;
    EXPECT_EQ(row.runner_up.find("Replicate"), std::string::npos) << row.runner_up;
  }
  EXPECT_TRUE(any);
}

TEST(Explain, ABoundThatIsTheWorkAloneIsNoProof) {
  auto plan = block_plan();
  plan.optimal = false;
  plan.bound_is_work_alone = true;
  plan.lower_bound = plan.prediction.cost * 0.25;
  for (const auto& text : {plan::explain(plan), plan::plan_html(plan, "title")}) {
    EXPECT_NE(text.find("Not proven"), std::string::npos) << text;
    EXPECT_NE(text.find("75% less"), std::string::npos) << text;
  }
}

TEST(Explain, RanksOfDifferentPartsHaveDifferentColours) {
  for (const int parts : {4, 5, 6, 24, 128}) {
    plan::Plan plan = block_plan();
    plan.devices = 2 * parts;
    plan.mesh_sizes = {parts, 2};
    plan.inputs = {Shard(0), Replicate()};
    plan.mesh_names = {"data", "model"};
    const auto page = plan::plan_html(plan, "title");
    std::map<std::string, std::set<std::string>> parts_of;  // by colour
    const std::regex cell("<i style=\"background:([^\"]*)\" title=\"rank [0-9]+: part ([0-9]+) of the batch\">");
    for (std::sregex_iterator at(page.begin(), page.end(), cell), end; at != end; ++at) {
      parts_of[(*at)[1]].insert((*at)[2]);
    }
    EXPECT_EQ(parts_of.size(), static_cast<std::size_t>(parts));
    for (const auto& [colour, of_batch] : parts_of) EXPECT_EQ(of_batch.size(), 1U) << colour;
  }
}

TEST(Explain, ThePageNeedsNothingElse) {
  const auto page = plan::plan_html(block_plan(), "gpt & friends");
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  EXPECT_TRUE(page.ends_with("</html>\n"));
  for (const char* what : {"http:", "https:", "<script", "src=", "@import", "<small>", "gpt & friends"}) {
    EXPECT_EQ(page.find(what), std::string::npos) << what;
  }
  EXPECT_NE(page.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_NE(page.find("a &lt;small&gt; cluster"), std::string::npos);
  EXPECT_NE(page.find("blocks.*.fc1"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
