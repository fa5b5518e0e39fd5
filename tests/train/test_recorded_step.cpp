// train.cuda_graph where nothing can be recorded: which runs, what they say, and that they go on as without.
#include <lockstep/train/modes/updater.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "train/small_run.h"

namespace lockstep::train {
namespace {

using test::mnist;
using testing::HasSubstr;

std::string log_of(const std::string& run) { return test::read_file(mnist().work_dir(run) / "log/rank.0"); }

TEST(RecordedStep, ConfigurationsThatCannotHaveThemAreNamed) {
  const torch::nn::Linear dense(2, 2);
  const torch::nn::Embedding sparse(torch::nn::EmbeddingOptions(4, 2).sparse(true));
  const auto why = [&](const std::string& key, const torch::nn::Module& module) {
    return why_not_recorded(mnist().config("why", {key}), module).value_or("");
  };
  EXPECT_EQ(why("train.cuda_graph=true", *dense), "");
  EXPECT_THAT(why("train.accumulate=2", *dense), HasSubstr("train.accumulate"));
  EXPECT_THAT(why("train.clip_norm=1", *dense), HasSubstr("train.clip_norm"));
  EXPECT_THAT(why("loss_scaler.type=static", *dense), HasSubstr("loss_scaler"));
  EXPECT_THAT(why("parallel.shard_optimizer=true", *dense), HasSubstr("parallel.shard_optimizer"));
  EXPECT_THAT(why("train.cuda_graph=true", *sparse), HasSubstr("sparse gradients"));
}

TEST(RecordedStep, OnCpusStepsRunAsWrittenWithOneLineThatSaysWhy) {
  mnist().run(1, mnist().config("as_written"));
  for (const auto& [name, keys, words] : std::vector<std::tuple<std::string, std::vector<std::string>, std::string>>{
           {"graph", {}, "steps are not recorded as a CUDA graph (train.cuda_graph): "},
           {"graph_and_global", {"parallel.mode=semi_auto"}, "those of the global view never are"},
           {"graph_and_clip", {"train.clip_norm=1e9"}, "train.clip_norm reads the norm"}}) {
    auto all = keys;
    all.emplace_back("train.cuda_graph=true");
    mnist().run(1, mnist().config(name, all));
    const auto log = log_of(name);
    const auto at = log.find(words);
    ASSERT_NE(at, std::string::npos) << log;
    EXPECT_EQ(log.find(words, at + 1), std::string::npos) << "said once";
    if (name == "graph_and_global") continue;
    EXPECT_EQ(mnist().hash(name), mnist().hash("as_written")) << name;
  }
  EXPECT_THAT(log_of("as_written"), testing::Not(HasSubstr("CUDA graph")));
}

TEST(RecordedStep, WithinASinkNobodyLooksAtLosses) {
  const std::vector<std::string> sinks{"train.dataset_sink_mode=true", "train.sink_size=20", "train.epochs=2"};
  auto recorded = sinks;
  recorded.emplace_back("train.cuda_graph=true");
  mnist().run(1, mnist().config("sinks", sinks));
  mnist().run(1, mnist().config("sinks_graph", recorded));
  EXPECT_EQ(mnist().hash("sinks_graph"), mnist().hash("sinks"));
  EXPECT_EQ(mnist().losses("sinks").size(), 2U);
  EXPECT_EQ(mnist().losses("sinks_graph"), mnist().losses("sinks"));
}

TEST(RecordedStep, SeveralRanksOnCpusRunAsWritten) {
  mnist().run(2, mnist().config("two_as_written"));
  mnist().run(2, mnist().config("two_graph", {"train.cuda_graph=true"}));
  EXPECT_EQ(mnist().hash("two_graph"), mnist().hash("two_as_written"));
  EXPECT_THAT(log_of("two_graph"), HasSubstr("steps are not recorded"));
}

}  // namespace
}  // namespace lockstep::train
