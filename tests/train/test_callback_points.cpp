// The points of callbacks, their order, their requests, and their failures.
#include <lockstep/state/checkpoint_folder.h>
#include <lockstep/train/callback.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/program.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "train/small_run.h"

namespace lockstep::train {
namespace {

using test::mnist;
using test::SmallRun;

using Act = std::function<void(std::string_view point, RunView& run)>;

/// Acts at each point.
class ActsAtPoints final : public Callback {
 public:
  ActsAtPoints(std::string name, int priority, Act act)
      : name_(std::move(name)), priority_(priority), act_(std::move(act)) {}

  std::string name() const override { return name_; }
  int priority() const override { return priority_; }
  void before_run(RunView& run) override { act_("before_run", run); }
  void after_run(RunView& run) override { act_("after_run", run); }
  void before_epoch(RunView& run) override { act_("before_epoch", run); }
  void after_epoch(RunView& run, const EpochReport&) override { act_("after_epoch", run); }
  void before_step(RunView& run) override { act_("before_step", run); }
  void after_step(RunView& run, const StepReport&) override { act_("after_step", run); }
  void before_backward(RunView& run) override { act_("before_backward", run); }
  void after_backward(RunView& run) override { act_("after_backward", run); }
  void before_update(RunView& run) override { act_("before_update", run); }
  void after_update(RunView& run) override { act_("after_update", run); }
  void before_evaluation(RunView& run) override { act_("before_evaluation", run); }
  void after_evaluation(RunView& run, const Evaluation&) override { act_("after_evaluation", run); }
  void before_save(RunView& run) override { act_("before_save", run); }
  void after_save(RunView& run) override { act_("after_save", run); }

 private:
  std::string name_;
  int priority_;
  Act act_;
};

const std::vector<std::string> kPoints = {"before_run",    "after_run",    "before_epoch",      "after_epoch",
                                          "before_step",   "after_step",   "before_backward",   "after_backward",
                                          "before_update", "after_update", "before_evaluation", "after_evaluation",
                                          "before_save",   "after_save"};

/// A run whose ranks act so at the points of one callback.
std::vector<test::Outcome> run_acting(int ranks, const ResolvedRun& config, const Act& act,
                                      const Environment& environment = {}) {
  auto options = SmallRun::small_rank_options();
  options.environment = environment;
  return test::rank_outcomes(ranks, options, [&](test::Rank& rank) {
    auto world = rank.world();
    if (world.size == 1) world.rendezvous = Rendezvous::alone;
    const Program program{.callbacks = [&](int) {
      Callbacks callbacks;
      callbacks.push_back(std::make_unique<ActsAtPoints>("acting", Callback::kNormal, act));
      return callbacks;
    }};
    run_training(config, program, world);
  });
}

class CallbackModes : public testing::TestWithParam<std::pair<int, std::string>> {
 protected:
  int ranks() const { return GetParam().first; }
  ResolvedRun config(const std::string& name, std::vector<std::string> overrides = {}) const {
    overrides.push_back("parallel.mode=" + GetParam().second);
    return mnist().config(fmt::format("{}_{}_{}", name, ranks(), GetParam().second), overrides);
  }
  std::string work_dir(const std::string& name) const {
    return fmt::format("{}_{}_{}", name, ranks(), GetParam().second);
  }
};

INSTANTIATE_TEST_SUITE_P(All, CallbackModes,
                         testing::Values(std::pair(1, "data_parallel"), std::pair(2, "data_parallel"),
                                         std::pair(2, "semi_auto")),
                         [](const auto& each) { return fmt::format("{}On{}", each.param.second, each.param.first); });

TEST_P(CallbackModes, AreToldOfEachPointInOrder) {
  const auto file = mnist().folder() / work_dir("points.txt");
  const auto keep = [&](std::string_view point, RunView& run) {
    if (run.group().rank() == 0) std::ofstream(file, std::ios::app) << point << ' ' << run.step() << '\n';
  };
  test::expect_all_ok(run_acting(ranks(), config("points", {"train.steps=2", "train.epochs=null"}), keep));
  const std::string step =
      "before_step {0}\nbefore_backward {0}\nafter_backward {0}\nbefore_update {0}\nafter_update {0}\nafter_step {1}\n";
  EXPECT_EQ(test::read_file(file),
            "before_run 0\nbefore_epoch 0\n" + fmt::format(fmt::runtime(step), 0, 1) +
                fmt::format(fmt::runtime(step), 1, 2) +
                "after_epoch 2\nbefore_evaluation 2\nafter_evaluation 2\nbefore_save 2\nafter_save 2\nafter_run 2\n");
}

TEST_P(CallbackModes, AnyRankMayAskToStopAndTheRunStaysStopped) {
  const auto act = [&](std::string_view point, RunView& run) {
    if (point == "before_step" && run.step() == 2 && run.group().rank() == ranks() - 1) run.ask_to_stop("enough");
  };
  const auto stopping = config("stop");
  for (int time = 0; time < 2; ++time) {
    test::expect_all_ok(run_acting(ranks(), stopping, act));
    const auto result = mnist().result(work_dir("stop"));
    EXPECT_EQ(result["steps"], 3);
    EXPECT_EQ(result["stopped"], "enough");
    EXPECT_EQ(result["evaluations"].size(), 1u);
    EXPECT_EQ(list_checkpoints(checkpoint_folder_of(stopping)).front().step, 3);
  }
  // A longer run is another: it goes on.
  test::expect_all_ok(run_acting(ranks(), config("stop", {"train.epochs=3"}), [](std::string_view, RunView&) {}));
  EXPECT_FALSE(mnist().result(work_dir("stop")).contains("stopped"));
  EXPECT_EQ(mnist().result(work_dir("stop"))["epochs"], 3);
}

TEST_P(CallbackModes, AnyRankMayAskToSaveAndToEvaluate) {
  const auto act = [&](std::string_view point, RunView& run) {
    if (run.group().rank() != ranks() - 1 || run.step() != 1) return;
    if (point == "before_backward") run.ask_to_save();     // done after this step, the second
    if (point == "after_backward") run.ask_to_evaluate();  // after the next, the third
  };
  const auto asking = config("ask", {"checkpoint.keep=100", "train.epochs=1"});
  test::expect_all_ok(run_acting(ranks(), asking, act));
  std::vector<std::int64_t> steps;
  for (const auto& each : list_checkpoints(checkpoint_folder_of(asking))) steps.push_back(each.step);
  const auto result = mnist().result(work_dir("ask"));
  EXPECT_EQ(steps, (std::vector<std::int64_t>{result["steps"].get<std::int64_t>(), 2}));
  ASSERT_EQ(result["evaluations"].size(), 2u);
  EXPECT_EQ(result["evaluations"][0]["step"], 3);
}

TEST(CallbackPriorities, SmallerNumbersAreCalledFirstEqualOnesInTheirOrder) {
  const auto file = mnist().folder() / "priorities.txt";
  const auto keep = [&](const std::string& name) {
    return [&file, name](std::string_view point, RunView&) {
      if (point == "after_update") std::ofstream(file, std::ios::app) << name << ' ';
    };
  };
  test::expect_all_ok(test::rank_outcomes(1, SmallRun::small_rank_options(), [&](test::Rank& rank) {
    auto world = rank.world();
    world.rendezvous = Rendezvous::alone;
    const Program program{.callbacks = [&](int) {
      Callbacks callbacks;
      for (const auto& [name, priority] :
           {std::pair("d", 70), std::pair("b", 50), std::pair("c", 50), std::pair("a", 1)})
        callbacks.push_back(std::make_unique<ActsAtPoints>(name, priority, keep(name)));
      return callbacks;
    }};
    run_training(mnist().config("priorities", {"train.steps=1", "train.epochs=null"}), program, world);
  }));
  EXPECT_EQ(test::read_file(file), "a b c d ");
}

TEST(ThrowingCallbacks, EndTheRunOnAllRanksWithNameAndPoint) {
  for (const auto& where : kPoints) {
    SCOPED_TRACE(where);
    const auto act = [&](std::string_view point, RunView& run) {
      if (point == where && run.group().rank() == 1) throw std::runtime_error("no more of this");
    };
    const auto outcomes =
        run_acting(2, mnist().config("throwing_" + where, {"train.steps=3", "train.epochs=null"}), act);
    for (const auto& outcome : outcomes) {
      EXPECT_FALSE(outcome.ok());
      EXPECT_FALSE(outcome.hit_deadline);
      EXPECT_NE(outcome.output.find(fmt::format("callback acting, {}: no more of this", where)), std::string::npos)
          << outcome.output;
    }
  }
}

class FailsToSave final : public Callback {
 public:
  std::string name() const override { return "forgetful"; }
  CallbackState state() const override { throw std::runtime_error("nothing to keep"); }
};

TEST(ThrowingCallbacks, StatesThatFailAreNamedToo) {
  const auto outcomes = test::rank_outcomes(2, SmallRun::small_rank_options(), [&](test::Rank& rank) {
    const Program program{.callbacks = [](int) {
      Callbacks callbacks;
      callbacks.push_back(std::make_unique<FailsToSave>());
      return callbacks;
    }};
    run_training(mnist().config("forgetful", {"train.steps=1", "train.epochs=null"}), program, rank.world());
  });
  for (const auto& outcome : outcomes) {
    EXPECT_FALSE(outcome.ok());
    EXPECT_NE(outcome.output.find("callback forgetful, state: nothing to keep"), std::string::npos) << outcome.output;
  }
}

// What callbacks take is training, too: the rate is the one by the clock.
TEST(CallbackTimes, CountAsThoseOfTheirSteps) {
  constexpr auto kPause = std::chrono::milliseconds(20);
  const auto config = mnist().config("slow_callbacks", {"train.steps=5", "train.eval_every=0"});
  const auto act = [&](std::string_view point, RunView&) {
    if (point == "before_step" || point == "after_step") std::this_thread::sleep_for(kPause);
  };
  for (const auto& outcome : run_acting(1, config, act)) EXPECT_TRUE(outcome.ok());
  const auto result = mnist().result("slow_callbacks");
  EXPECT_GE(result["seconds"].get<double>(), 5 * 2 * std::chrono::duration<double>(kPause).count());
  EXPECT_LE(result["samples_per_s"].get<double>(), 8 / (2 * std::chrono::duration<double>(kPause).count()));
}

TEST(UsedCallbacks, MistakesAreAnsweredAsThoseOfOtherKeys) {
  for (const auto& [use, answer] :
       {std::pair("[erly_stopping]", "there is no callback 'erly_stopping'; did you mean 'early_stopping'?"),
        {"[early_stopping: {patence: 3}]", "did you mean 'patience'"},
        {"[early_stopping: {patience: 0}]", "from 1 to"},
        {"[ema: {decay: 1}]", "callbacks.use[0].ema"},
        {"ema", "callbacks.use"}}) {
    try {
      mnist().config("mistakes", {fmt::format("callbacks.use={}", use)});
      ADD_FAILURE() << use << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::config);
      EXPECT_NE(error.message().find(answer), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace lockstep::train
