// Runs that end early, in every way, and go on.
#include <lockstep/comm/collectives.h>
#include <lockstep/state/checkpoint_folder.h>
#include <lockstep/train/checkpoint/run_state.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/output/run_files.h>
#include <lockstep/train/resources/runtime.h>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <torch/torch.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <random>
#include <string_view>

#include "base/expect_error.h"
#include "base/small_disk.h"
#include "train/checkpoint_files.h"
#include "train/small_run.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using test::expect_words;
using test::load_intact;
using test::mnist;
using test::read_file;
using test::SmallRun;

void damage(const fs::path& file) {
  auto bytes = read_file(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::ofstream(file, std::ios::binary) << bytes;
}

void expect_same_course(const std::string& a, const std::string& b) {
  EXPECT_EQ(mnist().hash(a), mnist().hash(b));
  EXPECT_EQ(mnist().losses(a), mnist().losses(b));
  EXPECT_EQ(mnist().result(a)["evaluations"], mnist().result(b)["evaluations"]);
  EXPECT_EQ(mnist().result(a)["steps"], mnist().result(b)["steps"]);
}

class Stopped : public testing::TestWithParam<const char*> {};

TEST_P(Stopped, WithinAnEpochGoesOnBitForBit) {
  const std::string optimizer = GetParam();
  const std::vector<std::string> options = {"optimizer.name=" + optimizer, "optimizer.lr=0.01", "scheduler.name=step",
                                            "scheduler.unit=steps", "scheduler.step_size=5"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), options.begin(), options.end());
    return more;
  };
  mnist().run(2, mnist().config(optimizer + "_whole", with({})));
  mnist().run(2, mnist().config(optimizer + "_parts", with({"train.steps=3"})));
  mnist().run(2, mnist().config(optimizer + "_parts", with({"train.steps=8"})));
  mnist().run(2, mnist().config(optimizer + "_parts", with({})));
  EXPECT_EQ(mnist().hash(optimizer + "_whole"), mnist().hash(optimizer + "_parts"));
  EXPECT_EQ(mnist().losses(optimizer + "_whole"), mnist().losses(optimizer + "_parts"));
  expect_words(read_file(mnist().work_dir(optimizer + "_parts") / "log/rank.0"),
               {"going on from", "step_00000003", "3 of 8 steps are done", "8 of 12 steps are done"});
}

TEST_P(Stopped, GoesOnWithOrWithoutShards) {
  const std::string optimizer = GetParam();
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"optimizer.name=" + optimizer, "optimizer.lr=0.01"});
    return more;
  };
  const auto sharded = [&](std::vector<std::string> more) {
    more.emplace_back("parallel.shard_optimizer=true");
    return with(more);
  };
  mnist().run(2, mnist().config(optimizer + "_sharded", sharded({})));
  mnist().run(2, mnist().config(optimizer + "_sharded_parts", sharded({"train.steps=3"})));
  mnist().run(2, mnist().config(optimizer + "_sharded_parts", sharded({})));
  EXPECT_EQ(mnist().hash(optimizer + "_sharded"), mnist().hash(optimizer + "_sharded_parts"));

  mnist().run(2, mnist().config(optimizer + "_mixed", sharded({"train.steps=3"})));
  mnist().run(2, mnist().config(optimizer + "_mixed", with({"train.steps=8"})));
  mnist().run(2, mnist().config(optimizer + "_mixed", sharded({})));
  const auto expected = mnist().losses(optimizer + "_sharded");
  const auto actual = mnist().losses(optimizer + "_mixed");
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i].second, expected[i].second, 1e-5) << i;
}

INSTANTIATE_TEST_SUITE_P(All, Stopped, testing::Values("momentum", "adam"),
                         [](const auto& each) { return std::string(each.param); });
INSTANTIATE_TEST_SUITE_P(Thorough, Stopped, testing::Values("sgd", "adamw", "rmsprop", "adagrad"),
                         [](const auto& each) { return std::string(each.param); });

// With groups, frozen parameters and a schedule that is at work.
class StoppedWithGroups : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(StoppedWithGroups, GoesOnBitForBit) {
  const auto name = GetParam().front().substr(GetParam().front().find('=') + 1) + "_groups";
  const auto with = [](std::vector<std::string> more) {
    more.insert(more.end(), GetParam().begin(), GetParam().end());
    more.insert(more.end(),
                {"optimizer.lr=0.01", "optimizer.weight_decay=0.01", "optimizer.no_decay=[norms, biases]",
                 "optimizer.groups=[{match: fc2.*, lr_factor: 3}, {match: [\"*.weight\"], weight_decay: 0.1}]",
                 "model.freeze=[fc1.bias]", "scheduler.name=exponential", "scheduler.gamma=0.5"});
    return more;
  };
  mnist().run(2, mnist().config(name + "_whole", with({})));
  mnist().run(2, mnist().config(name + "_parts", with({"train.steps=3"})));
  mnist().run(2, mnist().config(name + "_parts", with({"train.steps=8"})));
  mnist().run(2, mnist().config(name + "_parts", with({})));
  EXPECT_EQ(mnist().hash(name + "_whole"), mnist().hash(name + "_parts"));
  EXPECT_EQ(mnist().losses(name + "_whole"), mnist().losses(name + "_parts"));
}

INSTANTIATE_TEST_SUITE_P(
    All, StoppedWithGroups,
    testing::Values(std::vector<std::string>{"optimizer.name=lamb"}, std::vector<std::string>{"optimizer.name=muon"},
                    std::vector<std::string>{"optimizer.name=rmsprop", "parallel.shard_optimizer=true"}),
    [](const auto& each) { return each.param.front().substr(each.param.front().find('=') + 1); });
INSTANTIATE_TEST_SUITE_P(Thorough, StoppedWithGroups,
                         testing::Values(std::vector<std::string>{"optimizer.name=momentum"},
                                         std::vector<std::string>{"optimizer.name=lars"}),
                         [](const auto& each) { return each.param.front().substr(each.param.front().find('=') + 1); });

// A run that freezes more than before has no place for the state of what it froze.
TEST(Resume, MayFreezeAndThawParameters) {
  mnist().run(1, mnist().config("thaw", {"train.steps=3", "model.freeze=[fc2.*]"}));
  const auto refused = mnist().outcomes(1, mnist().config("thaw", {"train.steps=6", "model.freeze=[fc1.*]"})).front();
  EXPECT_FALSE(refused.ok());
  expect_words(refused.output, {"model.freeze", "checkpoint.allow_changes=[model.freeze]"});
  mnist().run(
      1, mnist().config("thaw", {"train.steps=6", "model.freeze=[fc1.*]", "checkpoint.allow_changes=[model.freeze]"}));
  mnist().run(1, mnist().config("thaw", {"train.steps=9", "checkpoint.allow_changes=true"}));
  EXPECT_EQ(mnist().losses("thaw").size(), 9U);
}

/// Without what a process that only finds the run finished adds.
nlohmann::json without_times(nlohmann::json result) {
  for (const auto* key : {"time", "ettr", "longest_wait", "shortest_wait"}) result.erase(key);
  return result;
}

TEST(Resume, AFinishedRunIsNotTrainedAgain) {
  mnist().run(2, mnist().config("finished"));
  const auto before = mnist().result("finished");
  mnist().run(2, mnist().config("finished"));
  EXPECT_EQ(without_times(mnist().result("finished")), without_times(before));
  expect_words(read_file(mnist().work_dir("finished") / "log/rank.0"), {"12 of 12 steps are done"});
}

// A run that is killed between its last save and the removals after it leaves more than it would keep.
TEST(Resume, AFinishedRunRemovesWhatAKilledOneLeft) {
  const auto config = mnist().config("left", {"checkpoint.every_steps=1", "checkpoint.keep=2"});
  mnist().run(1, config);
  const auto folder = mnist().work_dir("left") / "checkpoints";
  const auto kept = list_checkpoints(folder);
  ASSERT_EQ(kept.size(), 2u);
  fs::copy(kept.back().path, checkpoint_path(folder, 1), fs::copy_options::recursive);
  fs::create_directory(unfinished_path(folder, 2));
  fs::create_directory(folder / "step_00000003.sharded.removed");
  mnist().run(1, config);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 2);
  EXPECT_EQ(list_checkpoints(folder).front().step, kept.front().step);
}

TEST(Resume, FromANamedFile) {
  mnist().run(1, mnist().config("source"));
  const auto file = checkpoint_path(mnist().work_dir("source") / "checkpoints", 12).string();
  mnist().run(1, mnist().config("named", {"checkpoint.resume=" + file, "train.epochs=3"}));
  mnist().run(1, mnist().config("source", {"train.epochs=3"}));
  EXPECT_EQ(mnist().hash("named"), mnist().hash("source"));
}

TEST(Resume, WithAnotherNumberOfRanksButTheSameGlobalBatch) {
  mnist().run(1, mnist().config("ranks_whole", {"data.batch_size=16"}));
  mnist().run(1, mnist().config("ranks", {"data.batch_size=16", "train.steps=4"}));
  mnist().run(2, mnist().config("ranks", {"data.batch_size=8"}));
  const auto whole = mnist().losses("ranks_whole");
  const auto parts = mnist().losses("ranks");
  ASSERT_EQ(whole.size(), parts.size());
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole[i].second, parts[i].second, 1e-5) << i;
}

// Ranks that come and go: in the middle of an epoch, and where ranks do not divide the batch.
TEST(Resume, OnANumberOfRanksThatChanges) {
  const auto config = [](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"data.batch_size=null", "data.global_batch_size=10", "scheduler.name=step",
                             "scheduler.unit=steps", "scheduler.step_size=4"});
    return mnist().config(name, more);
  };
  mnist().run(1, config("elastic_whole", {}));
  mnist().run(2, config("elastic", {"train.steps=3"}));
  mnist().run(3, config("elastic", {"train.steps=9"}));
  mnist().run(1, config("elastic", {"train.steps=12"}));
  mnist().run(4, config("elastic", {}));
  const auto whole = mnist().losses("elastic_whole");
  const auto parts = mnist().losses("elastic");
  ASSERT_EQ(whole.size(), 20U);
  ASSERT_EQ(parts.size(), 20U);
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole[i].second, parts[i].second, 1e-5) << i;
  for (const auto* key : {"steps", "epochs", "eval_samples", "eval_accuracy"}) {
    EXPECT_EQ(mnist().result("elastic")[key], mnist().result("elastic_whole")[key]) << key;
  }
  EXPECT_EQ(mnist().result("elastic")["world_size"], 4);
}

TEST(Resume, WithAnotherGlobalBatchIsRefused) {
  mnist().run(1, mnist().config("batch", {"train.steps=2"}));
  for (const auto& outcome : mnist().outcomes(2, mnist().config("batch"))) {
    EXPECT_FALSE(outcome.ok());
    expect_words(outcome.output, {"data.global_batch_size=8", "8 -> 16", "system.work_dir"});
  }
}

TEST(Resume, NewCheckpointsNeverMixWithThoseOfAnotherCourse) {
  mnist().run(1, mnist().config("mix"));
  const auto folder = mnist().work_dir("mix") / "checkpoints";
  const auto older = checkpoint_path(folder, 12).string();
  const auto anew = mnist().outcomes(1, mnist().config("mix", {"checkpoint.resume=none"})).front();
  expect_words(anew.output, {"checkpoint.resume", "step_00000024", "resume=auto"});
  const auto back = mnist().outcomes(1, mnist().config("mix", {"checkpoint.resume=" + older})).front();
  expect_words(back.output, {"step_00000024", "another training run"});
  EXPECT_EQ(list_checkpoints(folder).size(), 2u);
}

TEST(Resume, SkipsADamagedCheckpointAndSaysSo) {
  mnist().run(2, mnist().config("skip_whole"));
  mnist().run(2, mnist().config("skip", {"checkpoint.every_steps=2", "train.steps=8"}));
  const auto folder = mnist().work_dir("skip") / "checkpoints";
  const auto newest = checkpoint_path(folder, 8);
  damage(newest / read_index(newest).files().front());
  const auto outcomes = mnist().outcomes(2, mnist().config("skip", {"checkpoint.every_steps=2"}));
  test::expect_all_ok(outcomes);
  expect_words(outcomes[0].output,
               {"skipped the damaged checkpoint", "step_00000008", "SHA-256", "going on from", "step_00000006"});
  EXPECT_EQ(mnist().hash("skip"), mnist().hash("skip_whole"));
  EXPECT_EQ(mnist().losses("skip"), mnist().losses("skip_whole"));
}

// On one rank as on several: a checkpoint that cannot be written is a warning, and the result has a place of its own.
TEST(Resume, AFullDiskUnderCheckpointsIsAWarningAndTheResultIsThere) {
  if (const auto why = test::why_no_small_disk(); !why.empty()) GTEST_SKIP() << "no small disk here: " << why;
  const auto disk = mnist().folder() / "disk";
  fs::create_directory(disk);
  for (const int ranks : {1, 2}) {
    const auto name = fmt::format("full_{}", ranks);
    const auto config = mnist().config(name, {"checkpoint.folder=" + disk.string(), "checkpoint.every_steps=1",
                                              "checkpoint.keep=100", "train.steps=12", "train.epochs=null"});
    const auto outcomes = test::rank_outcomes(ranks, SmallRun::small_rank_options(), [&](test::Rank& rank) {
      auto world = rank.world();
      if (ranks == 1) world.rendezvous = Rendezvous::alone;
      // A checkpoint of this model takes about 100 KB. Rank 1 does not see this disk, so rank 0 writes its part too.
      if (rank.rank() == 0) test::mount_small_disk(disk, 512 << 10);
      EXPECT_EQ(run_training(config, world).steps, 12);
      if (rank.rank() != 0) return;
      const auto files = list_checkpoints(disk);
      ASSERT_GE(files.size(), 2u);
      for (const auto& file : files) EXPECT_EQ(load_intact(file.path).state.step, file.step);
    });
    test::expect_all_ok(outcomes);
    expect_words(outcomes[0].output, {"training goes on without", "disk is full", disk.string(), "bytes free",
                                      "no checkpoint after step 12, the run has its result without"});
    EXPECT_EQ(mnist().result(name)["steps"], 12);
    EXPECT_TRUE(fs::exists(mnist().work_dir(name) / "model.safetensors"));
  }
}

/// One rank's run with a work_dir on a disk that has no room for its weights, whose error has these words; `then` comes
/// after it, with the path of what fills the disk.
void train_without_room_for_weights(const ResolvedRun& config, std::initializer_list<std::string_view> words,
                                    const std::function<void(const World&, const fs::path& filler)>& then) {
  fs::create_directory(config.system.work_dir);
  const auto outcomes = test::rank_outcomes(1, SmallRun::small_rank_options(), [&](test::Rank& rank) {
    auto world = rank.world();
    world.rendezvous = Rendezvous::alone;
    test::mount_small_disk(config.system.work_dir, 160 << 10);
    const auto filler = fs::path(config.system.work_dir) / "filler";
    std::ofstream(filler) << std::string(100 << 10, 'x');
    try {
      run_training(config, world);
      ADD_FAILURE() << "there was room for the weights";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::io);
      expect_words(error.what(), words);
    }
    if (then) then(world, filler);
  });
  test::expect_all_ok(outcomes);
}

// The other way round the checkpoint has what there is no room for, and says so.
TEST(Resume, AFullWorkDirLeavesWhatFitsAndTheRestLater) {
  if (const auto why = test::why_no_small_disk(); !why.empty()) GTEST_SKIP() << "no small disk here: " << why;
  const auto checkpoints = mnist().folder() / "of_full_work_dir";
  const auto config = mnist().config("full_work_dir", {"checkpoint.folder=" + checkpoints.string(), "train.epochs=1"});
  train_without_room_for_weights(
      config, {"model.safetensors", "disk is full", "accuracy", "its last checkpoint has the weights"},
      [&](const World& world, const fs::path& filler) {
        EXPECT_TRUE(fs::exists(fs::path(config.system.work_dir) / "result.json"));
        fs::remove(filler);
        run_training(config, world);
        EXPECT_TRUE(fs::exists(fs::path(config.system.work_dir) / "model.safetensors"));
      });
}

TEST(Resume, AFullDiskForEverythingSaysThatTheWeightsAreLost) {
  if (const auto why = test::why_no_small_disk(); !why.empty()) GTEST_SKIP() << "no small disk here: " << why;
  train_without_room_for_weights(mnist().config("full_disk_of_all", {"train.epochs=1"}),
                                 {"model.safetensors", "disk is full", "in no checkpoint, so they are lost"}, {});
}

// They follow from the seed, the rank and the step, so that no checkpoint needs to hold generators.
TEST(Resume, EachRankGetsItsRandomNumbersBack) {
  const auto numbers = [](int rank, std::int64_t step) {
    seed_rank(1, rank, step);
    return torch::rand({4});
  };
  EXPECT_TRUE(torch::equal(numbers(1, 5), numbers(1, 5)));
  EXPECT_FALSE(torch::equal(numbers(0, 5), numbers(1, 5)));
  EXPECT_FALSE(torch::equal(numbers(1, 5), numbers(2, 5)));
  EXPECT_FALSE(torch::equal(numbers(1, 5), numbers(1, 6)));
}

// Kills all ranks at a random moment, again and again, until the run gets through.
class KilledAtAnyMoment : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(KilledAtAnyMoment, EndsTheSame) {
  std::vector<std::string> options = {"checkpoint.every_steps=1", "train.epochs=20", "checkpoint.keep=2",
                                      "model.hidden=[512]"};
  options.insert(options.end(), GetParam().begin(), GetParam().end());
  const SmallRun run;
  const auto begin = std::chrono::steady_clock::now();
  run.run(2, run.config("unkilled", options));
  // Shares of what a whole run takes on this machine now, which may be busy; so long in the end that it gets through.
  const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - begin;
  std::mt19937 random(20240607);
  auto rank_options = SmallRun::small_rank_options();
  int kills = 0;
  for (;;) {
    const double share = std::uniform_real_distribution(0.05, 0.3)(random) + 0.03 * kills;
    rank_options.deadline = std::chrono::ceil<std::chrono::milliseconds>(share * whole);
    const auto outcomes = run.outcomes(2, run.config("killed", options), rank_options);
    if (outcomes[0].ok() && outcomes[1].ok()) break;
    for (const auto& outcome : outcomes) EXPECT_TRUE(outcome.ok() || outcome.hit_deadline) << describe(outcome);
    ASSERT_LT(++kills, 100);
  }
  EXPECT_GE(kills, 2);
  RecordProperty("kills", kills);
  EXPECT_EQ(run.hash("unkilled"), run.hash("killed"));
  EXPECT_EQ(run.losses("unkilled"), run.losses("killed"));
  const auto folder = run.work_dir("killed") / "checkpoints";
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 2);  // no temporaries left
}

INSTANTIATE_TEST_SUITE_P(Resume, KilledAtAnyMoment,
                         testing::Values(std::vector<std::string>{"parallel.shard_optimizer=true",
                                                                  "optimizer.name=adam", "optimizer.lr=0.01",
                                                                  "checkpoint.async=true"}));
INSTANTIATE_TEST_SUITE_P(Thorough, KilledAtAnyMoment,
                         testing::Values(std::vector<std::string>{}, std::vector<std::string>{"checkpoint.async=true"},
                                         std::vector<std::string>{"parallel.mode=semi_auto",
                                                                  "parallel.shard={\"*\": {data: 0}}",
                                                                  "checkpoint.async=true"}));

// Rank 0's clock decides; a run that never comes to the time saves at its end.
TEST(Resume, SavesByTheClock) {
  const auto count = [](const std::string& name, const std::string& seconds) {
    mnist().run(2, mnist().config(name, {"checkpoint.every_epochs=0", "checkpoint.keep=100",
                                         "checkpoint.every_seconds=" + seconds}));
    return list_checkpoints(mnist().work_dir(name) / "checkpoints");
  };
  const auto often = count("by_clock", "1e-9");
  EXPECT_EQ(often.size(), 12u) << "after each step";
  const auto never = count("by_slow_clock", "1e9");
  ASSERT_EQ(never.size(), 1u);
  EXPECT_EQ(never.front().step, 12);
}

TEST(Resume, AFileWrittenInTheBackgroundIsTheSame) {
  const std::vector<std::string> options = {"checkpoint.every_steps=4", "checkpoint.keep=100", "model.hidden=[512]"};
  auto in_background = options;
  in_background.emplace_back("checkpoint.async=true");
  mnist().run(2, mnist().config("saved_at_once", options));
  mnist().run(2, mnist().config("saved_later", in_background));
  const auto files = list_checkpoints(mnist().work_dir("saved_at_once") / "checkpoints");
  ASSERT_EQ(files.size(), 4u) << "every 4 steps, and after each epoch of 6";
  for (const auto& one : files) {
    const auto later = mnist().work_dir("saved_later") / "checkpoints" / one.path.filename();
    ASSERT_TRUE(fs::exists(later)) << later;
    EXPECT_EQ(sha256_of(load_intact(later).tensors), sha256_of(load_intact(one.path).tensors)) << later;
  }
}

// One rank dies; the others must end by themselves, soon, and the run goes on as if nothing had been.
TEST(Resume, OneRankKilledEndsAllAndTheRunGoesOn) {
  const std::vector<std::string> options = {"checkpoint.every_steps=1", "train.epochs=8", "model.hidden=[64]"};
  mnist().run(2, mnist().config("one_unkilled", options));
  const auto config = mnist().config("one_killed", options);
  const auto outcomes = test::rank_outcomes(2, SmallRun::small_rank_options(), [&](test::Rank& rank) {
    if (rank.rank() == 1) {
      // SIGKILL as soon as the first checkpoint is there.
      const auto parent = ::getpid();
      if (::fork() == 0) {
        while (list_checkpoints(checkpoint_folder_of(config)).empty()) ::usleep(1000);
        ::kill(parent, SIGKILL);
        ::_exit(0);
      }
    }
    run_training(config, rank.world());
  });
  EXPECT_EQ(outcomes[1].status.signal, SIGKILL);
  EXPECT_FALSE(outcomes[0].ok());
  EXPECT_FALSE(outcomes[0].hit_deadline);
  expect_words(outcomes[0].output, {"rank 1"});
  mnist().run(2, config);
  expect_same_course("one_unkilled", "one_killed");
}

}  // namespace
}  // namespace lockstep::train
