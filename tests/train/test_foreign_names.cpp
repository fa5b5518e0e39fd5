// Keys of MindSpore, MindOCR and MMEngine in the place of ours.
#include <lockstep/base/config.h>
#include <lockstep/train/configuration/read_config.h>

#include <gtest/gtest.h>

#include "base/expect_error.h"

namespace lockstep::test {
namespace {

constexpr std::string_view kYaml = R"(
model: {name: mlp}
data: {name: mnist, root: data}
optimizer: {lr: 0.1}
)";

train::ResolvedRun config(std::string_view more, std::vector<std::string> overrides = {}) {
  return train::read_run_config(parse_config(std::string(kYaml) + std::string(more), "run.yaml", overrides));
}

TEST(ForeignNames, AreReadAsOurs) {
  const auto read = config(R"(
system: {distribute: True, amp_level: O2, ckpt_max_keep: 7}
train: {epochs: 2, gradient_accumulation_steps: 3, ckpt_save_dir: ckpt}
loss_scaler: {type: dynamic, loss_scale: 512, scale_factor: 2, scale_window: 1000}
load_from: weights.pth
resume: True
)");
  EXPECT_EQ(read.parallel.mode, "data_parallel");
  EXPECT_EQ(read.model.autocast, "O2");
  EXPECT_EQ(read.checkpoint.keep, 7);
  EXPECT_EQ(read.checkpoint.folder, "ckpt");
  EXPECT_EQ(read.checkpoint.resume, "auto");
  EXPECT_EQ(read.train.accumulate, 3);
  EXPECT_EQ(read.model.weights, "weights.pth");
  EXPECT_EQ(read.loss_scaler.loss_scale, 512);
  EXPECT_EQ(config("train: {epochs: 1}\n", {"distribute=False"}).parallel.mode, "stand_alone");
}

TEST(ForeignNames, ScaleTheLearningRate) {
  const std::string theirs = "train: {epochs: 1}\nauto_scale_lr: {base_batch_size: 256}\n";
  EXPECT_EQ(config(theirs).optimizer.base_batch_size, std::nullopt);
  EXPECT_EQ(config(theirs, {"auto_scale_lr.enable=true"}).optimizer.base_batch_size, 256);
  expect_error(ErrorKind::config, {"auto_scale_lr", "optimizer.base_batch_size", "run.yaml:6"},
               [] { config("train: {epochs: 1}\nauto_scale_lr: {base: 256}\n"); });
}

TEST(ForeignNames, AreRefusedBesideOurs) {
  expect_error(ErrorKind::config, {"system.distribute", "synonym of parallel.mode", "line 6"},
               [] { config("train: {epochs: 1}\nparallel: {mode: auto}\nsystem: {distribute: true}\n"); });
}

// Those of docs/coming_from.md that are not accepted.
TEST(ForeignNames, ThatAreNotAcceptedAreTranslated) {
  struct Case {
    std::string more;
    std::vector<std::string_view> words;
  };
  const std::vector<Case> cases = {
      {"parallel_mode: AUTO_PARALLEL\n", {"'parallel_mode'; here it is called 'parallel.mode'"}},
      {"parallel: {mode: AUTO_PARALLEL}\n", {"'AUTO_PARALLEL' is not one of", "; here it is called 'auto'"}},
      {"parallel: {mode: SEMI_AUTO_PARALLEL}\n", {"; here it is called 'semi_auto'"}},
      {"parallel: {mode: DATA_PARALLEL}\n", {"did you mean 'data_parallel'?"}},
      {"gradients_mean: true\n", {"'parallel.gradients_mean'"}},
      {"enable_parallel_optimizer: true\n", {"here it is called 'parallel.shard_optimizer'"}},
      {"full_batch: true\n", {"here write parallel.dataset_strategy: full_batch"}},
      {"parallel: {full_batch: true}\n", {"here write parallel.dataset_strategy: full_batch"}},
      {"parallel: {mode: HYBRID_PARALLEL}\n", {"'HYBRID_PARALLEL' is not one of", "by hand", "semi_auto"}},
      {"mode: GRAPH_MODE\n", {"one mode of execution", "remove the key"}},
      {"checkpoint: {save_checkpoint_steps: 5}\n", {"here it is called 'checkpoint.every_steps'"}},
      {"eval: {loader: {batch_size: 4}}\n", {"data.eval_batch_size", "lockstep convert mindocr FILE"}},
      {"system: {device: gpu}\n", {"'gpu' is not one of auto, cpu, cuda, cuda:N; here it is called 'cuda'"}},
      {"optim_wrapper: {accumulative_counts: 4}\n", {"accumulative_counts is train.accumulate", "train.clip_norm"}},
      {"train_cfg: {max_epochs: 4}\n", {"train.epochs or train.steps", "train.eval_every"}},
      {"default_hooks: {checkpoint: {interval: 1}}\n", {"checkpoint.every_epochs"}},
      {"gpus: 4\n", {"lockstep run --nproc-per-node N"}},
      {"parallel: {wrapper: {type: ddp}}\n", {"'ddp' is not one of '', data_parallel, separate"}},
  };
  for (const auto& each : cases) {
    const auto error =
        expect_error(ErrorKind::config, {"run.yaml:6"}, [&] { config("train: {epochs: 1}\n" + each.more); });
    for (const auto word : each.words) expect_words(error ? error->what() : "", {word});
  }
  expect_error(ErrorKind::config, {"data.remainder sets it: drop for true"},
               [] { config("train: {epochs: 1}\n", {"data.drop_remainder=true"}); });
  expect_error(ErrorKind::config, {"callbacks.use: [ema]"}, [] { config("train: {epochs: 1}\n", {"train.ema=true"}); });
}

TEST(ForeignNames, AFileOfMindOcrIsToBeTranslated) {
  const auto error = expect_error(ErrorKind::config, {"run.yaml:"}, [] {
    config("train: {loader: {batch_size: 8}, dataset: {type: DetDataset}}\neval: {loader: {batch_size: 1}}\n");
  });
  expect_words(error ? error->what() : "", {"a configuration of MindOCR", "lockstep convert mindocr run.yaml"});
  // On the command line the file is ours.
  expect_error(ErrorKind::config, {"train.loader", "data.batch_size, data.workers"},
               [] { config("train: {epochs: 1}\n", {"train.loader.batch_size=8"}); });
}

TEST(ForeignNames, KeepTheirPlaceInErrors) {
  expect_error(ErrorKind::config, {"checkpoint.keep", "run.yaml:6"},
               [] { config("train: {epochs: 1}\nckpt_max_keep: many\n"); });
}

}  // namespace
}  // namespace lockstep::test
