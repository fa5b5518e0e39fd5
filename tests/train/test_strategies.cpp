// parallel.strategy of operators and inputs, alone and as constraints of the planner, and files of strategies.
#include <lockstep/base/error.h>
#include <lockstep/plan/report/explain.h>
#include <lockstep/train/modes/auto_mode.h>
#include <lockstep/train/modes/mesh_config.h>
#include <lockstep/train/modes/strategies.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>

#include "train/small_run.h"

namespace lockstep::test {
namespace {

void expect_losses_of(const SmallRun& run, const std::string& got, const std::string& expected) {
  const auto a = run.losses(got);
  const auto b = run.losses(expected);
  ASSERT_EQ(a.size(), b.size());
  ASSERT_FALSE(a.empty());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i].second, b[i].second, 1e-4 * std::abs(b[i].second)) << got << ", step " << a[i].first;
  }
}

using Keys = std::vector<std::string>;

/// Eight pictures in a step, whatever the layout.
train::ResolvedRun run_as(const SmallRun& run, const std::string& name, const std::string& mode, Keys keys) {
  keys.insert(keys.end(),
              {"parallel.mode=" + mode, "data.batch_size=null", "data.global_batch_size=8", "train.steps=6"});
  return run.config(name, std::move(keys));
}

/// In a process of its own: tracing starts threads, and whoever has them cannot fork ranks any more.
void in_own_process(const std::function<void()>& part) {
  run_ranks(1, SmallRun::small_rank_options(), [&](Rank&) { part(); });
}

const std::string kMesh = "parallel.mesh={data: 2, model: 2}";

TEST(Strategies, OfOperatorsAndInputsKeepTheNumbersOfOneDevice) {
  const SmallRun run;
  run.run(1, run_as(run, "alone", "data_parallel", {}));
  run.run(4, run_as(run, "relu", "semi_auto", {kMesh, "parallel.strategy={fc1: [[2, 1], [2, 1]], relu: [2, 1]}"}));
  run.run(4,
          run_as(run, "out", "semi_auto",
                 {kMesh, "parallel.strategy={fc1: {in: [[2, 2], [1, 2]], out: [[2, 2]]}, fc1.relu: {out: [[1, 4]]}}"}));
  run.run(4, run_as(run, "full", "semi_auto",
                    {kMesh, "parallel.dataset_strategy=full_batch", "parallel.strategy={relu: \"((1, 4))\"}"}));
  run.run(
      4, run_as(run, "named", "semi_auto", {kMesh, "parallel.dataset_strategy={pictures: [2, 1, 2, 1], labels: [2]}"}));
  run.run(4, run_as(run, "listed", "semi_auto", {kMesh, "parallel.dataset_strategy=[[1], [4, 1, 1, 1]]"}));
  for (const auto* each : {"relu", "out", "full", "named", "listed"}) {
    expect_losses_of(run, each, "alone");
    EXPECT_EQ(run.result(each)["eval_accuracy"], run.result("alone")["eval_accuracy"]) << each;
    EXPECT_EQ(run.result(each)["global_batch_size"], 8) << each;
  }
}

TEST(Strategies, OfAConvolutionalModel) {
  const SmallRun run("cifar10");
  const Keys model{"model.name=lenet5"};
  run.run(1, run_as(run, "alone", "data_parallel", model));
  auto keys = model;
  keys.insert(keys.end(), {kMesh,
                           "parallel.strategy={max_pool2d: [2, 2, 1, 1], conv2.relu: [4, 1, 1, 1], fc3: {out: "
                           "[[4, 1]]}}"});
  run.run(4, run_as(run, "divided", "semi_auto", keys));
  expect_losses_of(run, "divided", "alone");
}

TEST(Strategies, AreConstraintsOfThePlanner) {
  const SmallRun run;
  run.run(1, run_as(run, "alone", "data_parallel", {}));
  const std::string strategy = "parallel.strategy={fc1: [[2, 1], [2, 1]], fc1.relu: [2, 2]}";
  run.run(4, run_as(run, "free_mesh", "auto", {strategy}));
  run.run(4, run_as(run, "mesh", "auto", {strategy, kMesh, "parallel.dataset_strategy=full_batch"}));
  for (const auto* each : {"free_mesh", "mesh"}) {
    expect_losses_of(run, each, "alone");
    const auto plan = plan::load_plan(run.work_dir(each) / "plan.json");
    EXPECT_EQ(plan.mesh_sizes, (std::vector{2, 2})) << each;
    const auto* weight = find_placements(plan.parameters, "fc1.weight");
    ASSERT_NE(weight, nullptr) << each;
    EXPECT_EQ(to_string(*weight), "[Replicate(), Shard(0)]") << each;
    ASSERT_EQ(plan.operators.size(), 1U) << each;
    EXPECT_EQ(plan.operators[0], std::pair(std::string("fc1.relu"), std::string("((2, 2))"))) << each;
    const auto text = plan::explain(plan);
    EXPECT_NE(text.find("(given)"), std::string::npos) << text;
    EXPECT_NE(text.find("fc1.relu"), std::string::npos) << text;
  }
  EXPECT_EQ(plan::load_plan(run.work_dir("mesh") / "plan.json").inputs, (Placements{Replicate(), Replicate()}));
}

TEST(Strategies, MistakesAreNamedBeforeTheFirstStep) {
  const SmallRun run;
  std::vector<std::pair<std::string, std::string>> wrong{
      {"strategy={fc1.relo: [[2, 2]]}", "no operator fc1.relo; did you mean 'fc1.relu'?"},
      {"strategy={fc7: [[2, 1], [2, 1]]}", "did you mean 'fc1'?"},
      {"strategy={fc1.relu: [[2, 2], [2, 2]]}", "parallel.strategy: fc1.relu: 2 tuple(s) are given"},
      {"strategy={fc1.relu: [[2, 1, 1]]}", "fc1.relu: input 0: (2, 1, 1) has 3 numbers"},
      {"strategy={fc1.relu: [[3, 1]]}", "does not divide into 3 equal parts"},
      {"strategy={fc1.relu: [[8, 1]]}", "more parts than there are devices, 4"},
      {"strategy={fc1.relu: [[two, 1]]}", "is no strategy"},
      {"strategy={fc1.relu: {inn: [[2, 1]]}}", "did you mean 'in'?"},
      {"strategy={fc1: {out: [[2, 1, 1]]}}", "fc1: output 0: (2, 1, 1) has 3 numbers"},
      {"strategy={fc2: [[2, 1], [4, 1]]}", "fc2: the tuple of the weight: dimension 0 of the tensor [10, "},
      {"dataset_strategy=half_batch", "expected data_parallel, full_batch, or the parts"},
      {"dataset_strategy=[[2]]", "1 tuple(s) are given, but a batch has 2 input(s), in this order: labels, pictures"},
      {"dataset_strategy={picture: [2, 1, 1, 1]}", "did you mean 'pictures'?"},
      {"dataset_strategy={pictures: [2, 1, 1]}", "pictures: (2, 1, 1) has 3 numbers"},
      {"dataset_strategy={pictures: [8, 1, 1, 1]}", "(8, 1, 1, 1)"},
  };
  in_own_process([&] {
    for (const auto& [keys, part] : wrong) {
      for (const std::string mode : {"semi_auto", "auto"}) {
        Keys overrides{"parallel." + keys};
        if (mode == "semi_auto") overrides.push_back(kMesh);
        try {
          const auto config = run_as(run, "wrong", mode, overrides);
          const auto program = train::configured_program(config);
          if (mode == "auto") {
            train::planned_search(config, program, 4);
          } else {
            train::with_checked_strategies(config, program, 4);
          }
          ADD_FAILURE() << mode << ": " << keys << " was taken";
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::config) << error.what();
          const std::string text = error.what();
          EXPECT_NE(text.find(part), std::string::npos) << mode << ": " << keys << ": " << text;
          EXPECT_NE(text.find(keys.substr(0, keys.find('='))), std::string::npos) << text;
          EXPECT_NE(text.find("override"), std::string::npos) << "no position: " << text;
        }
      }
    }
    for (const std::string mode : {"semi_auto", "auto"}) {
      try {
        const auto config = run_as(run, "wrong", mode, {kMesh, "parallel.shard={fc7.weight: {data: 0}}"});
        const auto program = train::configured_program(config);
        if (mode == "auto") {
          train::planned_search(config, program, 4);
        } else {
          train::with_checked_strategies(config, program, 4);
        }
        ADD_FAILURE() << mode << ": a name that the model does not have was taken";
      } catch (const Error& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find("parallel.shard: no parameter or buffer of the model fits \"fc7.weight\"; did you mean"),
                  std::string::npos)
            << mode << ": " << text;
        EXPECT_NE(text.find("override"), std::string::npos) << "no position: " << text;
      }
    }
    // What this mesh cannot do.
    const auto config = run_as(run, "wrong", "semi_auto", {"parallel.strategy={fc1.relu: [[2, 2]]}"});
    try {
      train::with_checked_strategies(config, train::configured_program(config), 4);
      ADD_FAILURE() << "it was taken";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("the mesh 4 (data) has no axes for the parts (2, 2)"), std::string::npos)
          << error.what();
    }
  });
}

TEST(Strategies, AFileHasWhatARunUsed) {
  const SmallRun run;
  const auto file = [&](const std::string& name) { return (run.folder() / (name + ".json")).string(); };
  const auto saved = [&](const std::string& name) { return "parallel.strategy_ckpt_save_file=" + file(name); };
  const auto loaded = [&](const std::string& name) { return "parallel.strategy_ckpt_load_file=" + file(name); };
  run.run(4, run_as(run, "semi", "semi_auto",
                    {kMesh, saved("semi"), "parallel.dataset_strategy={pictures: [2, 1, 2, 1], labels: [2]}",
                     "parallel.strategy={fc1: [[2, 1], [2, 1]], fc1.relu: {in: [2, 2], out: [1, 4]}}"}));
  run.run(2, run_as(run, "full", "data_parallel",
                    {saved("full"), "parallel.wrapper={type: fully_sharded, threshold_kb: 0}"}));
  run.run(2, run_as(run, "data", "data_parallel", {saved("data")}));
  run.run(2,
          run_as(run, "auto", "auto", {saved("auto"), "parallel.mesh={model: 2}", "parallel.shard={fc1.weight: S0}"}));
  for (const std::string name : {"semi", "full", "data", "auto"}) {
    const auto ranks = name == "semi" ? 4 : 2;
    const auto plan = plan::load_plan(file(name));
    EXPECT_EQ(plan.devices, ranks);
    EXPECT_FALSE(plan::is_predicted(plan));
    for (const std::string mode : {"data_parallel", "semi_auto", "auto"}) {
      const auto again = name + "_in_" + mode;
      run.run(ranks, run_as(run, again, mode, {loaded(name), saved(again)}));
      EXPECT_EQ(run.hash(again), run.hash(name)) << again;
      EXPECT_EQ(plan::plan_hash(plan::load_plan(file(again))), plan::plan_hash(plan)) << again;
    }
  }
  // A plan that `lockstep plan` or a run in mode auto has written is such a file, and a run's file is a plan.
  run.run(2, run_as(run, "by_plan", "auto", {"parallel.plan=" + file("full")}));
  EXPECT_EQ(run.hash("by_plan"), run.hash("full"));
  run.run(2, run_as(run, "of_plan", "semi_auto",
                    {"parallel.strategy_ckpt_load_file=" + (run.work_dir("auto") / "plan.json").string()}));
  EXPECT_EQ(run.hash("of_plan"), run.hash("auto"));
}

TEST(Strategies, MistakesWithFilesAreNamed) {
  const SmallRun run;
  const auto file = (run.folder() / "one.json").string();
  run.run(1, run_as(run, "one", "stand_alone", {"parallel.strategy_ckpt_save_file=" + file}));
  const auto error_of = [&](const std::string& given) {
    std::string text = "no error";
    try {
      run_as(run, "x", "semi_auto", {"parallel.strategy_ckpt_load_file=" + given, kMesh});
    } catch (const Error& error) {
      text = error.what();
    }
    return text;
  };
  EXPECT_NE(error_of(file).find("parallel.strategy_ckpt_load_file decides on mesh"), std::string::npos);
  run_ranks(2, SmallRun::small_rank_options(), [&](Rank& rank) {
    const auto refusal = [&](const std::string& given) -> std::string {
      const auto config = run_as(run, "x", "semi_auto", {"parallel.strategy_ckpt_load_file=" + given});
      try {
        train::with_strategy_file(config, train::configured_program(config), rank.group());
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::config);
        return error.what();
      }
      return "it was taken";
    };
    EXPECT_NE(refusal(file).find("is for 1 rank(s), but these are 2"), std::string::npos) << refusal(file);
    EXPECT_NE(refusal("/nowhere/a.json").find("cannot read /nowhere/a.json"), std::string::npos);
    const auto text = (run.folder() / fmt::format("text{}", rank.rank())).string();
    std::ofstream(text) << "not json";
    EXPECT_NE(refusal(text).find("is not valid JSON"), std::string::npos) << refusal(text);
  });
}

TEST(Strategies, PrefetchingChangesNoBit) {
  const SmallRun run;
  const auto wrapped = [&](const std::string& name, int prefetch, Keys more = {}) {
    more.push_back(fmt::format("parallel.wrapper={{type: fully_sharded, threshold_kb: 0, prefetch: {}}}", prefetch));
    more.emplace_back("train.accumulate=2");
    run.run(2, run_as(run, name, "data_parallel", std::move(more)));
  };
  wrapped("without", 0);
  wrapped("with", 2);
  wrapped("with_many", 64);
  EXPECT_EQ(run.hash("with"), run.hash("without"));
  EXPECT_EQ(run.hash("with_many"), run.hash("without"));
  EXPECT_EQ(run.losses("with"), run.losses("without"));
}

}  // namespace
}  // namespace lockstep::test
