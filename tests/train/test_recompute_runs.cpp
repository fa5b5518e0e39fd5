// Activation checkpointing in runs: the same bits with it as without.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/train/trained_run.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>

#include "base/expect_error.h"
#include "train/small_run.h"

namespace lockstep::test {
namespace {

class RecomputeInRuns : public testing::Test {
 protected:
  RecomputeInRuns() {
    std::ofstream out(folder_.path() / "text.txt");
    for (int i = 0; i < 300; ++i) out << "word" << i % 17 << (i % 5 == 0 ? ".\n" : " ");
  }

  train::ResolvedRun gpt(const std::string& name, std::vector<std::string> more) const {
    std::vector<std::string> keys = {"data.file=" + (folder_.path() / "text.txt").string(),
                                     "system.work_dir=" + (folder_.path() / name).string(),
                                     "model={name: gpt, layers: 2, heads: 2, width: 32, context: 16, dropout: 0.2}",
                                     "data.length=16",
                                     "data.global_batch_size=8",
                                     "task.sample_bytes=4",
                                     "train={steps: 4}"};
    keys.insert(keys.end(), more.begin(), more.end());
    return train::load_run_config(LOCKSTEP_CONFIGS "/gpt_tiny_text.yaml", keys);
  }

  std::string hash(const std::string& name) const {
    std::ifstream in(folder_.path() / name / "result.json");
    return nlohmann::json::parse(in)["params_sha256"];
  }

  TemporaryFolder folder_{"lockstep-recompute"};
};

TEST_F(RecomputeInRuns, TrainsTheSameBitsInAllModes) {
  struct Case {
    const char* name;
    int ranks;
    std::vector<std::string> keys;
  };
  const std::vector<Case> cases = {
      {"alone", 1, {}},
      {"accumulated", 2, {"train.accumulate=2"}},
      {"bfloat16", 1, {"model.autocast=bfloat16"}},
      {"global", 2, {"parallel.mode=semi_auto"}},
      {"global_bfloat16", 2, {"parallel.mode=semi_auto", "model.autocast=bfloat16"}},
      {"tensor_parallel",
       2,
       {"parallel.mode=semi_auto", "parallel.mesh={model: 2}",
        "parallel.shard={\"blocks.*.fc1.*\": {model: 0}, \"blocks.*.fc2.weight\": {model: 1}}"}}};
  for (const auto& each : cases) {
    SCOPED_TRACE(each.name);
    const std::string name = each.name;
    auto keys = each.keys;
    mnist().run(each.ranks, gpt(name, keys));
    keys.emplace_back("parallel.recompute=[\"blocks.*\"]");
    mnist().run(each.ranks, gpt(name + "_again", keys));
    EXPECT_EQ(hash(name + "_again"), hash(name));
  }
}

TEST(Recompute, UpdatesBatchNormsOnce) {
  const SmallRun cifar("cifar10");
  const std::vector<std::string> keys = {"model={name: resnet20}",
                                         "train.steps=3",
                                         "data.batch_size=4",
                                         "optimizer.lr=0.01",
                                         "data.train_transforms=[rescale: {scale: 0.004}, hwc2chw]",
                                         "data.eval_transforms=null"};
  const auto run = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.begin(), keys.begin(), keys.end());
    cifar.run(2, cifar.config(name, more));
    return cifar.hash(name);
  };
  EXPECT_EQ(run("again", {"parallel.recompute=[\"layer*\"]"}), run("plain", {}));
  EXPECT_EQ(run("synchronized_again", {"parallel.recompute=[\"layer1.0\"]", "parallel.sync_batch_norm=true"}),
            run("synchronized", {"parallel.sync_batch_norm=true"}));
}

TEST(Recompute, NamesPatternsThatFitNothing) {
  const auto refused = [](std::vector<std::string> keys, std::initializer_list<std::string_view> words) {
    const auto outcomes = mnist().outcomes(1, mnist().config("refused", std::move(keys)));
    EXPECT_FALSE(outcomes[0].ok());
    expect_words(outcomes[0].output, words);
  };
  refused({"parallel.recompute=[\"fc1\"]"}, {"parallel.recompute", "no blocks", "Recomputable"});
  refused({"model={name: resnet20}", "parallel.recompute=[\"blocks.*\"]"},
          {"parallel.recompute", "blocks.*", "layer1.0"});
}

}  // namespace
}  // namespace lockstep::test
