// The callbacks that Lockstep brings: what they leave, alone and on two ranks, undisturbed and resumed.
#include <lockstep/comm/observe.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/state/checkpoint_folder.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/train/callbacks/run_callbacks.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/output/run_files.h>
#include <lockstep/train/program.h>
#include <torch/torch.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "train/small_run.h"
#include "train/viewers/event_reader.h"

namespace lockstep::train {
namespace {

using test::mnist;
using test::SmallRun;

class ShippedCallbacks : public testing::TestWithParam<std::pair<int, std::string>> {
 protected:
  int ranks() const { return GetParam().first; }
  std::string named(const std::string& name) const { return fmt::format("{}_{}_{}", name, ranks(), GetParam().second); }
  ResolvedRun config(const std::string& name, std::vector<std::string> overrides) const {
    overrides.push_back("parallel.mode=" + GetParam().second);
    return mnist().config(named(name), std::move(overrides));
  }
  std::filesystem::path file(const std::string& name, const std::string& relative) const {
    return mnist().work_dir(named(name)) / relative;
  }
  nlohmann::json result(const std::string& name) const { return mnist().result(named(name)); }

  /// The same run twice: undisturbed as `name`, and as `name`_killed, which is killed in this step and started again.
  void run_and_kill(const std::string& name, std::int64_t step, std::vector<std::string> overrides) const {
    overrides.emplace_back("checkpoint.every_steps=4");
    mnist().run(ranks(), config(name, overrides));
    auto options = SmallRun::small_rank_options();
    options.environment["LOCKSTEP_FAULT"] = fmt::format("rank={},step={},action=kill", ranks() - 1, step);
    const auto killed = config(name + "_killed", overrides);
    for (const auto& outcome : mnist().outcomes(ranks(), killed, options)) EXPECT_FALSE(outcome.ok());
    EXPECT_FALSE(std::filesystem::exists(file(name + "_killed", "result.json")));
    mnist().run(ranks(), killed);
    EXPECT_EQ(result(name)["params_sha256"], result(name + "_killed")["params_sha256"]);
    EXPECT_EQ(result(name)["evaluations"], result(name + "_killed")["evaluations"]);
    EXPECT_EQ(result(name).value("stopped", ""), result(name + "_killed").value("stopped", ""));
  }
};

INSTANTIATE_TEST_SUITE_P(All, ShippedCallbacks,
                         testing::Values(std::pair(1, "data_parallel"), std::pair(2, "data_parallel"),
                                         std::pair(2, "semi_auto")),
                         [](const auto& each) { return fmt::format("{}On{}", each.param.second, each.param.first); });

TEST_P(ShippedCallbacks, EarlyStoppingStopsAtTheSameEvaluationAfterAResume) {
  // Nothing is ever better by so much, so the third evaluation is the second without improvement.
  run_and_kill("early", 15,
               {"train.epochs=8", "callbacks.use=[early_stopping: {metric: accuracy, patience: 2, min_delta: 2}]"});
  EXPECT_EQ(result("early")["epochs"], 3);
  EXPECT_EQ(result("early")["evaluations"].size(), 3u);
  EXPECT_NE(result("early")["stopped"].get<std::string>().find("early_stopping: accuracy"), std::string::npos);
}

// It looks at all evaluations of the run, so more epochs alone train nothing; a larger patience does.
TEST_P(ShippedCallbacks, ARunThatWasStoppedEarlyGoesOnAsItsMessageSays) {
  const auto with = [&](int epochs, int patience) {
    mnist().run(ranks(), config("on", {fmt::format("train.epochs={}", epochs),
                                       fmt::format("callbacks.use=[early_stopping: {{metric: accuracy, patience: {}, "
                                                   "min_delta: 2}}]",
                                                   patience)}));
    return result("on")["evaluations"].size();
  };
  EXPECT_EQ(with(8, 1), 2u);
  EXPECT_EQ(with(8, 1), 2u);
  EXPECT_NE(test::read_file(file("on", "log/rank.0")).find("give early_stopping a larger patience"), std::string::npos);
  EXPECT_EQ(with(9, 1), 2u);
  EXPECT_EQ(with(9, 2), 3u);
}

TEST_P(ShippedCallbacks, TheBestCheckpointsAreThoseOfTheBestEvaluations) {
  run_and_kill("best", 15, {"train.epochs=4", "callbacks.use=[best_checkpoints: {metric: loss, keep: 2}]"});
  auto evaluations = result("best")["evaluations"].get<std::vector<nlohmann::json>>();
  std::ranges::stable_sort(evaluations, {}, [](const auto& each) { return each["loss"].template get<double>(); });
  const std::set<std::int64_t> expected{evaluations[0]["step"], evaluations[1]["step"]};
  for (const std::string name : {"best", "best_killed"}) {
    std::set<std::int64_t> steps;
    for (const auto& each : list_checkpoints(file(name, "best"))) steps.insert(each.step);
    EXPECT_EQ(steps, expected);
  }
}

// The best evaluation was before: of it there is no checkpoint, so the best of those that follow are kept.
TEST_P(ShippedCallbacks, TheBestCheckpointsOfARunThatGoesOnAreThoseThatItCanKeep) {
  const auto steps_in = [&](const std::string& folder) {
    std::vector<std::int64_t> steps;
    for (const auto& each : list_checkpoints(file("added", folder))) steps.push_back(each.step);
    return steps;
  };
  mnist().run(ranks(), config("added", {"train.epochs=2"}));
  const auto end = result("added")["steps"].get<std::int64_t>();
  const std::string use = "callbacks.use=[best_checkpoints: {metric: loss, mode: max, keep: 1, folder: ";
  mnist().run(ranks(), config("added", {"train.epochs=4", use + "worst}]"}));
  const auto loss = [&](std::size_t epoch) { return result("added")["evaluations"][epoch - 1]["loss"].get<double>(); };
  ASSERT_GT(loss(1), std::max(loss(3), loss(4))) << "by the mode max, the first would be the best";
  EXPECT_EQ(steps_in("worst"), (std::vector<std::int64_t>{end / 2 * (loss(3) >= loss(4) ? 3 : 4)}));
  // A checkpoint of the same step that another run has left is not taken for one of this.
  mnist().run(ranks(), config("other", {"train.epochs=4", "system.seed=9"}));
  std::filesystem::create_directory(file("added", "found"));
  std::filesystem::rename(file("other", fmt::format("checkpoints/step_{:08}.sharded", end * 2)),
                          file("added", fmt::format("found/step_{:08}.sharded", end * 2)));
  mnist().run(ranks(), config("added", {"train.epochs=5", use + "found}]"}));
  EXPECT_EQ(steps_in("found"), (std::vector<std::int64_t>{end / 2 * 5}));
}

TEST_P(ShippedCallbacks, TheAverageOfWeightsIsExactAndExactAfterAResume) {
  run_and_kill("ema", 15, {"train.epochs=3", "callbacks.use=[ema: {decay: 0.9}]"});
  const auto average = load_safetensors(file("ema", "ema.safetensors"));
  EXPECT_EQ(sha256_of({average.begin(), average.end()}),
            load_safetensors_metadata(file("ema_killed", "ema.safetensors")).at("params_sha256"));
  // By brute force, from the weights after each step.
  const auto by_hand = config("ema_by_hand", {"train.epochs=3"});
  const auto saved = file("ema_by_hand", "by_hand.safetensors");
  test::run_ranks(ranks(), SmallRun::small_rank_options(), [&](test::Rank& rank) {
    struct ByHand final : Callback {
      explicit ByHand(std::filesystem::path to) : file(std::move(to)) {}
      void before_run(RunView& run) override {
        for (const auto& [name, tensor] : run.weights()) sums[name] = tensor.detach().to(torch::kDouble).clone();
      }
      void after_update(RunView& run) override {
        for (const auto& [name, tensor] : run.weights()) sums[name] = 0.9 * sums[name] + 0.1 * tensor.detach();
      }
      void after_run(RunView& run) override {
        if (run.group().rank() == 0) save_safetensors(file, {sums.begin(), sums.end()});
      }
      std::filesystem::path file;
      NamedTensors sums;
    };
    auto world = rank.world();
    if (world.size == 1) world.rendezvous = Rendezvous::alone;
    run_training(by_hand,
                 Program{.callbacks =
                             [&](int) {
                               Callbacks callbacks;
                               callbacks.push_back(std::make_unique<ByHand>(saved));
                               return callbacks;
                             }},
                 world);
  });
  for (const auto& [name, expected] : load_safetensors(saved)) {
    EXPECT_TRUE(torch::allclose(average.at(name).to(torch::kDouble), expected, 1e-5, 1e-7)) << name;
    EXPECT_FALSE(torch::allclose(average.at(name).to(torch::kDouble),
                                 load_safetensors(file("ema", "model.safetensors")).at(name).to(torch::kDouble), 1e-5))
        << name << " of the weights is not an average";
  }
  // Evaluations are those of the average, training is not changed by it.
  EXPECT_EQ(result("ema")["params_sha256"], result("ema_by_hand")["params_sha256"]);
  EXPECT_NE(result("ema")["eval_loss"], result("ema_by_hand")["eval_loss"]);
  for (const std::string name : {"ema", "ema_killed"}) {
    const auto log = test::read_file(file(name, "log/rank.0"));
    EXPECT_THAT(log.substr(log.rfind("done: ")), testing::HasSubstr(" with the average of the weights (ema), "));
  }
}

TEST_P(ShippedCallbacks, GradientNormsAreThoseOfAllGradients) {
  const auto norms =
      config("norms", {"callbacks.use=[gradient_norms: {every: 2, parameters: true}]", "train.clip_norm=1e-3"});
  mnist().run(ranks(), norms);
  std::ifstream in(file("norms", "gradient_norms.jsonl"));
  std::int64_t step = 0;
  for (std::string text; std::getline(in, text);) {
    const auto line = nlohmann::json::parse(text);
    EXPECT_EQ(line["step"], step += 2);
    double squares = 0;
    for (const auto& [name, norm] : line["parameters"].items()) squares += norm.get<double>() * norm.get<double>();
    EXPECT_NEAR(line["norm"].get<double>(), std::sqrt(squares), 1e-9);
    EXPECT_GT(line["norm"].get<double>(), 1e-3) << "before they are clipped";
  }
  EXPECT_EQ(step, result("norms")["steps"].get<std::int64_t>());
}

TEST_P(ShippedCallbacks, TheProfilerShowsTheCollectivesOfAllRanks) {
  mnist().run(ranks(), config("profile", {"callbacks.use=[profiler: {from_step: 3, steps: 2}]"}));
  const auto text = test::read_file(file("profile", "trace.json"));
  for (int rank = 0; rank < ranks(); ++rank) {
    std::map<std::int64_t, std::pair<double, double>> steps;
    std::map<std::string, int> phases, collectives;
    std::map<std::pair<std::string, std::int64_t>, std::string> numbers;
    bool is_labelled = false;
    const auto events = nlohmann::json::parse(text);
    const auto of_rank = [&](const nlohmann::json& event) { return event["pid"] == rank; };
    for (const auto& event : events) {
      if (!of_rank(event)) continue;
      if (event["name"] == "process_labels") is_labelled = true;
      if (event["ph"] != "X") continue;
      EXPECT_GE(event["dur"].get<double>(), 0) << event;
      const double begin = event["ts"], end = begin + event["dur"].get<double>();
      if (event["name"] == "step") steps[event["args"]["step"]] = {begin, end};
    }
    ASSERT_EQ(steps.size(), 2u);
    EXPECT_TRUE(is_labelled);
    EXPECT_LE(steps.at(3).second, steps.at(4).first);
    constexpr double kRounding = 0.002;  // of microseconds with three digits
    for (const auto& event : events) {
      if (!of_rank(event) || event["ph"] != "X" || event["name"] == "step") continue;
      const double begin = event["ts"], end = begin + event["dur"].get<double>();
      EXPECT_TRUE(std::ranges::any_of(steps,
                                      [&](const auto& step) {
                                        return step.second.first - kRounding <= begin &&
                                               end <= step.second.second + kRounding;
                                      }))
          << event << " is in no step";
      const auto name = event["name"].get<std::string>();
      if (event["cat"] == "step") ++phases[name];
      if (event["cat"] != "collective") continue;
      ++collectives[name];
      EXPECT_GT(event["tid"].get<int>(), 0);
      EXPECT_GT(event["args"]["bytes"].get<std::int64_t>(), 0) << event;
      const std::pair<std::string, std::int64_t> number{event["args"]["group"], event["args"]["number"]};
      EXPECT_TRUE(numbers.emplace(number, name).second) << event << " is there twice";
    }
    EXPECT_EQ(phases, (std::map<std::string, int>{{"forward", 2}, {"backward", 2}, {"clip", 2}, {"optimizer", 2}}));
    if (ranks() > 1) {
      EXPECT_GE(collectives["all_reduce"], 2);
    }
  }
}

TEST_P(ShippedCallbacks, TheProfilerRecordsWhatIsLeftAndSaysWhenNothingIs) {
  mnist().run(ranks(), config("profile_end", {"train.steps=6", "callbacks.use=[profiler: {from_step: 6, steps: 9}]"}));
  EXPECT_TRUE(std::filesystem::exists(file("profile_end", "trace.json")));
  mnist().run(ranks(), config("profile_none", {"train.steps=6", "callbacks.use=[profiler: {from_step: 7}]"}));
  EXPECT_FALSE(std::filesystem::exists(file("profile_none", "trace.json")));
  EXPECT_NE(test::read_file(file("profile_none", "log/rank.0")).find("the run ended before step 7"), std::string::npos);
}

TEST_P(ShippedCallbacks, TensorBoardHasHistogramsAndPictures) {
  mnist().run(ranks(), config("board", {"callbacks.use=[tensorboard: {histograms_every: 5, pictures: 2}]"}));
  const auto files = test::event_files(file("board", "tensorboard"));
  ASSERT_EQ(files.size(), 1u);
  std::string all;
  for (const auto& record : test::read_records(files.front())) all += record;
  for (const auto* tag : {"weights/", "gradients/", "train/loss", "training/0", "training/1", "evaluation/accuracy"}) {
    EXPECT_NE(all.find(tag), std::string::npos) << tag;
  }
}

TEST_P(ShippedCallbacks, ASinkIsAStepForCallbacks) {
  // Two sinks of 5 steps for each of two epochs of the configuration.
  mnist().run(ranks(), config("sink", {"train.dataset_sink_mode=true", "train.sink_size=5",
                                       "callbacks.use=[lr_log: {every: 1}]"}));
  EXPECT_EQ(result("sink")["steps"], 10);
  const auto lines = read_metrics(file("sink", "metrics.jsonl"));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].step, 5);
  EXPECT_EQ(lines[1].step, 10);
  const auto log = test::read_file(file("sink", "log/rank.0"));
  EXPECT_NE(log.find("step 5: learning rate 0.1"), std::string::npos);
  EXPECT_EQ(log.find("step 4: learning rate"), std::string::npos);
  // What is trained is the same.
  mnist().run(ranks(), config("no_sink", {"train.steps=10", "train.epochs=null"}));
  EXPECT_EQ(result("sink")["params_sha256"], result("no_sink")["params_sha256"]);
}

TEST_P(ShippedCallbacks, TheLearningRateIsInProportionToTheSamplesOfAStep) {
  mnist().run(ranks(), config("scaled", {"optimizer.base_batch_size=32", "train.accumulate=2"}));
  const auto samples = 8.0 * ranks() * 2;
  EXPECT_DOUBLE_EQ(read_metrics(file("scaled", "metrics.jsonl")).front().lr, 0.1 * samples / 32);
}

TEST(MetricChoice, ErrorsAreBetterWhenTheyAreSmaller) {
  for (const auto* metric : {"loss", "perplexity", "mae", "mse", "rmse", "abs_error", "val_loss"}) {
    EXPECT_TRUE((MetricChoice{.metric = metric}.is_better(1, 2))) << metric;
    EXPECT_FALSE((MetricChoice{.metric = metric}.is_better(2, 1))) << metric;
  }
  for (const auto* metric : {"accuracy", "f1", "top_k"}) {
    EXPECT_TRUE((MetricChoice{.metric = metric}.is_better(2, 1))) << metric;
  }
  EXPECT_TRUE((MetricChoice{.metric = "mae", .mode = "max"}.is_better(2, 1)));
}

}  // namespace
}  // namespace lockstep::train
