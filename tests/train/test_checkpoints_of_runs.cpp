// Checkpoints of runs in every mode: what the ranks save, and who goes on from it.
#include <lockstep/state/sharded/index.h>
#include <lockstep/state/sharded/rewrite.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/expect_error.h"
#include "base/small_disk.h"
#include "train/checkpoint_files.h"
#include "train/small_run.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using test::expect_words;
using test::load_intact;
using test::read_file;
using test::SmallRun;
using test::write_old_checkpoint;

// Adam has state of every kind: tensors that are divided, and a number that is not.
ResolvedRun divided(const SmallRun& run, const std::string& name, int data_ranks, std::vector<std::string> more) {
  more.insert(more.begin(), {"parallel.mode=semi_auto", "parallel.shard={\"*\": {data: 0}}", "optimizer.name=adam",
                             "optimizer.lr=0.01", "data.batch_size=" + std::to_string(8 / data_ranks)});
  return run.config(name, std::move(more));
}

ResolvedRun replicated(const SmallRun& run, const std::string& name, int ranks, std::vector<std::string> more) {
  more.insert(more.begin(),
              {"optimizer.name=adam", "optimizer.lr=0.01", "data.batch_size=" + std::to_string(8 / ranks)});
  return run.config(name, std::move(more));
}

fs::path folder_of(const SmallRun& run, const std::string& name) { return run.work_dir(name) / "checkpoints"; }

void flip_middle_byte(const fs::path& file) {
  auto bytes = read_file(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::ofstream(file, std::ios::binary) << bytes;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

void expect_close_losses(const SmallRun& run, const std::string& got, const std::string& expected) {
  const auto a = run.losses(got);
  const auto b = run.losses(expected);
  ASSERT_EQ(a.size(), b.size());
  ASSERT_FALSE(a.empty());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_NEAR(a[i].second, b[i].second, 1e-3 * std::abs(b[i].second)) << got << ", step " << a[i].first;
  }
}

TEST(CheckpointsOfRuns, AStoppedRunGoesOnBitForBit) {
  const SmallRun run;
  run.run(2, divided(run, "whole", 2, {}));
  run.run(2, divided(run, "parts", 2, {"train.steps=5"}));
  run.run(2, divided(run, "parts", 2, {}));
  EXPECT_EQ(run.hash("whole"), run.hash("parts"));
  EXPECT_EQ(run.losses("whole"), run.losses("parts"));
  expect_words(read_file(run.work_dir("parts") / "log/rank.0"), {"going on from", "step_00000005.sharded"});
}

TEST(CheckpointsOfRuns, EachRankWritesWhatItHoldsAndEachPartIsThereOnce) {
  const SmallRun run;
  run.run(2, divided(run, "run", 2, {"train.steps=3"}));
  const auto folder = checkpoint_path(folder_of(run, "run"), 3);
  EXPECT_EQ(names_in(folder_of(run, "run")), std::vector<std::string>{"step_00000003.sharded"});
  const auto index = read_index(folder);
  EXPECT_EQ(index.files().size(), 2u);
  std::int64_t divided_tensors = 0;
  for (const auto& [name, tensor] : index.tensors) {
    std::int64_t elements = 0;
    for (const auto& shard : tensor.shards) elements += shard.box.elements();
    EXPECT_EQ(elements, whole_box(tensor.shape).elements()) << name;
    if (tensor.shards.size() == 2) ++divided_tensors;
  }
  EXPECT_GE(divided_tensors, 3 * 2) << "weights and both moments of two layers";
  EXPECT_EQ(load_intact(folder).state.step, 3);
}

TEST(CheckpointsOfRuns, OtherWorldSizesMeshesAndModesGoOnFromIt) {
  const SmallRun run;
  run.run(1, replicated(run, "alone", 1, {}));
  for (const std::string name : {"mesh", "replicas", "one"}) {
    run.run(2, divided(run, name, 2, {"train.steps=5"}));
  }
  run.run(4, divided(run, "mesh", 2, {"parallel.mesh={data: 2, model: 2}", "parallel.shard={\"fc1.*\": {model: 0}}"}));
  run.run(4, replicated(run, "replicas", 4, {}));
  run.run(1, replicated(run, "one", 1, {}));
  for (const auto* name : {"mesh", "replicas", "one"}) expect_close_losses(run, name, "alone");
}

TEST(CheckpointsOfRuns, GoesOnFromAFileOfAnOlderProgram) {
  const SmallRun run;
  run.run(1, replicated(run, "alone", 1, {}));
  for (const std::string name : {"replicas", "shards", "mesh"}) {
    run.run(4, replicated(run, name, 4, {"train.steps=5"}));
    const auto folder = folder_of(run, name);
    auto whole = load_intact(checkpoint_path(folder, 5));
    whole.tensors["generators"] = torch::zeros({4, 16}, torch::kByte);  // older programs wrote them
    fs::remove_all(checkpoint_path(folder, 5));
    write_old_checkpoint(folder / "step_00000005.safetensors", whole);
  }
  run.run(2, replicated(run, "replicas", 2, {}));
  run.run(2, replicated(run, "shards", 2, {"parallel.shard_optimizer=true"}));
  run.run(2, divided(run, "mesh", 2, {}));
  for (const auto* name : {"replicas", "shards", "mesh"}) expect_close_losses(run, name, "alone");
}

/// A way to run: how many ranks, and how they share the work.
struct Way {
  std::string name;
  int ranks;
  bool is_divided;
  std::vector<std::string> keys;

  ResolvedRun config(const SmallRun& run, const std::string& work_dir, std::vector<std::string> more) const {
    more.insert(more.end(), keys.begin(), keys.end());
    return is_divided ? divided(run, work_dir, ranks, std::move(more))
                      : replicated(run, work_dir, ranks, std::move(more));
  }
};

const std::vector<Way>& ways() {
  static const std::vector<Way> all{{"one", 1, false, {}},
                                    {"two", 2, false, {}},
                                    {"four", 4, false, {}},
                                    {"two_shards", 2, false, {"parallel.shard_optimizer=true"}},
                                    {"four_shards", 4, false, {"parallel.shard_optimizer=true"}},
                                    {"divided", 2, true, {}}};
  return all;
}

class FromWay : public testing::TestWithParam<Way> {};

// Resumed with nothing left to train, the weights are those of the checkpoint, bit for bit; trained on from there, the
// losses are those of an undisturbed run, which with Adam needs its whole state.
TEST_P(FromWay, EveryOtherWayGoesOn) {
  const SmallRun run;
  const auto& from = GetParam();
  run.run(1, replicated(run, "alone", 1, {}));
  run.run(from.ranks, from.config(run, "from", {"train.steps=5"}));
  const auto saved = checkpoint_path(folder_of(run, "from"), 5);
  for (const auto& way : ways()) {
    const auto source = "checkpoint.resume=" + saved.string();
    run.run(way.ranks, way.config(run, "at_rest_" + way.name, {"train.steps=5", source}));
    EXPECT_EQ(run.hash("at_rest_" + way.name), run.hash("from")) << way.name;
    run.run(way.ranks, way.config(run, "on_" + way.name, {source}));
    auto losses = run.losses("from");
    losses.resize(5);
    for (const auto& each : run.losses("on_" + way.name)) losses.push_back(each);
    const auto expected = run.losses("alone");
    ASSERT_EQ(losses.size(), expected.size()) << way.name;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      EXPECT_EQ(losses[i].first, expected[i].first);
      EXPECT_NEAR(losses[i].second, expected[i].second, 1e-3 * std::abs(expected[i].second)) << way.name << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(CheckpointsOfRuns, FromWay,
                         testing::ValuesIn(std::vector<Way>{ways()[0], ways()[1], ways()[4], ways()[5]}),
                         [](const auto& each) { return each.param.name; });

// Stopped, and gone on from what `lockstep checkpoint merge` and `reshard` make of it.
class RewrittenCheckpoint : public testing::TestWithParam<Way> {};

TEST_P(RewrittenCheckpoint, GoesOnBitForBit) {
  const SmallRun run;
  const auto& way = GetParam();
  run.run(way.ranks, way.config(run, "whole", {}));
  run.run(way.ranks, way.config(run, "from", {"train.steps=5"}));
  const auto saved = checkpoint_path(folder_of(run, "from"), 5);
  const auto merged = run.folder() / "merged.safetensors", resharded = run.folder() / "resharded";
  merge_checkpoint(saved, merged);
  reshard(saved, resharded, {.sizes = {3, 2}, .names = {"data", "model"}},
          {{"*.weight", {Shard(0), Shard(1)}}, {"*.weight.exp_avg*", {Shard(1), Shard(0)}}});
  EXPECT_EQ(sha256_of(load_intact(merged).tensors), sha256_of(load_intact(resharded).tensors));
  for (const auto& [name, path] : {std::pair<std::string, fs::path>{"m", merged}, {"r", resharded}}) {
    run.run(way.ranks, way.config(run, name, {"checkpoint.resume=" + path.string()}));
    EXPECT_EQ(run.hash(name), run.hash("whole")) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(CheckpointsOfRuns, RewrittenCheckpoint,
                         testing::ValuesIn(std::vector<Way>{ways()[1], ways()[3], ways()[5]}),
                         [](const auto& each) { return each.param.name; });

// The same state, held whole by every rank, or in stretches of memory that follow no rows, also of convolutions'
// weights with their channels last.
TEST(CheckpointsOfRuns, AnOptimizerInShardsSavesWhatAWholeOneDoes) {
  const SmallRun run("cifar10");
  const std::vector<std::string> keys{"model.name=resnet20", "optimizer.name=momentum", "optimizer.lr=0.01",
                                      "train.steps=2"};
  const auto config = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), keys.begin(), keys.end());
    return run.config(name, std::move(more));
  };
  run.run(3, config("whole", {}));
  run.run(3, config("shards", {"parallel.shard_optimizer=true"}));
  ASSERT_EQ(run.hash("whole"), run.hash("shards"));
  const auto whole = checkpoint_path(folder_of(run, "whole"), 2), shards = checkpoint_path(folder_of(run, "shards"), 2);
  EXPECT_EQ(sha256_of(load_intact(shards).tensors), sha256_of(load_intact(whole).tensors));
  EXPECT_EQ(read_index(shards).files().size(), 3u);
}

// What is equal on all ranks is written once, each rank about as much of it as the others.
TEST(CheckpointsOfRuns, ReplicasShareTheWriting) {
  const SmallRun run;
  run.run(4, replicated(run, "run", 4, {"train.steps=2", "model.hidden=[2048]"}));
  const auto folder = checkpoint_path(folder_of(run, "run"), 2);
  std::vector<std::uintmax_t> sizes;
  for (const auto& file : read_index(folder).files()) sizes.push_back(fs::file_size(folder / file));
  ASSERT_EQ(sizes.size(), 4u);
  const auto [least, most] = std::ranges::minmax(sizes);
  EXPECT_LT(static_cast<double>(most), 1.3 * static_cast<double>(least));
}

// Rank 1 has a folder of its own, like a rank of a host that shares no file system: rank 0 writes for both, and sends
// what it reads to both.
class WithoutSharedFolder : public testing::TestWithParam<Way> {};

TEST_P(WithoutSharedFolder, OneHostHoldsAllParts) {
  if (const auto why = test::why_no_small_disk(); !why.empty()) GTEST_SKIP() << "no small disk here: " << why;
  const SmallRun run;
  const auto& way = GetParam();
  run.run(way.ranks, way.config(run, "whole", {}));
  const auto folder = run.folder() / "own";
  fs::create_directory(folder);
  const auto train = [&](const std::string& name, std::vector<std::string> more) {
    more.push_back("checkpoint.folder=" + folder.string());
    const auto config = way.config(run, name, std::move(more));
    test::expect_all_ok(test::rank_outcomes(way.ranks, SmallRun::small_rank_options(), [&](test::Rank& rank) {
      if (rank.rank() == 1) test::mount_small_disk(folder, 64 << 10);
      run_training(config, rank.world());
      EXPECT_EQ(fs::is_empty(folder), rank.rank() == 1);
    }));
  };
  train("parts", {"train.steps=5", "checkpoint.async=true", "checkpoint.every_steps=2"});
  train("parts", {});
  EXPECT_EQ(run.hash("parts"), run.hash("whole"));
}

INSTANTIATE_TEST_SUITE_P(CheckpointsOfRuns, WithoutSharedFolder,
                         testing::ValuesIn(std::vector<Way>{ways()[1], ways()[3], ways()[5]}),
                         [](const auto& each) { return each.param.name; });

TEST(CheckpointsOfRuns, ADamagedPartIsFoundAndTheOneBeforeIsUsed) {
  const SmallRun run;
  run.run(2, divided(run, "whole", 2, {}));
  run.run(2, divided(run, "run", 2, {"train.steps=6", "checkpoint.every_steps=3"}));
  const auto newest = checkpoint_path(folder_of(run, "run"), 6);
  flip_middle_byte(newest / read_index(newest).files().back());
  run.run(2, divided(run, "run", 2, {}));
  EXPECT_EQ(run.hash("run"), run.hash("whole"));
  expect_words(read_file(run.work_dir("run") / "log/rank.0"),
               {"skipped the damaged checkpoint", "step_00000006.sharded", "going on from", "step_00000003.sharded"});
  EXPECT_TRUE(fs::exists(folder_of(run, "run") / "step_00000006.sharded.damaged"));
}

// What a kill leaves: parts without an index, and a removal that was not finished.
TEST(CheckpointsOfRuns, RemainsOfKilledSavesAreNotTakenAndGoAway) {
  const SmallRun run;
  run.run(2, divided(run, "run", 2, {"train.steps=3"}));
  const auto folder = folder_of(run, "run");
  const auto index = read_index(checkpoint_path(folder, 3));
  fs::create_directory(folder / "step_00000006.sharded.saving");
  fs::copy_file(checkpoint_path(folder, 3) / index.files().front(),
                folder / "step_00000006.sharded.saving" / index.files().front());
  fs::create_directory(folder / "step_00000001.sharded.removed");
  run.run(2, divided(run, "run", 2, {"train.steps=6", "checkpoint.keep=1"}));
  EXPECT_EQ(names_in(folder), std::vector<std::string>{"step_00000006.sharded"});
  EXPECT_EQ(load_intact(checkpoint_path(folder, 6)).state.step, 6);
}

// The state changes while it is written: what is on disk is what it was.
TEST(CheckpointsOfRuns, WrittenInTheBackgroundItIsTheSame) {
  const SmallRun run;
  const std::vector<std::string> options = {"checkpoint.every_steps=3", "checkpoint.keep=20", "model.hidden=[512]"};
  const auto in_background = [&] {
    auto more = options;
    more.emplace_back("checkpoint.async=true");
    return more;
  };
  run.run(2, divided(run, "at once", 2, options));
  run.run(2, divided(run, "later", 2, in_background()));
  EXPECT_EQ(run.hash("at once"), run.hash("later"));
  const auto names = names_in(folder_of(run, "at once"));
  EXPECT_EQ(names_in(folder_of(run, "later")), names);
  ASSERT_EQ(names.size(), 8u);
  for (const auto& name : names) {
    EXPECT_EQ(sha256_of(load_intact(folder_of(run, "later") / name).tensors),
              sha256_of(load_intact(folder_of(run, "at once") / name).tensors))
        << name;
  }
}

TEST(CheckpointsOfRuns, KeepCountsThoseOfAllModesAlike) {
  const SmallRun run;
  run.run(2, replicated(run, "run", 2, {"train.steps=2"}));
  run.run(2, divided(run, "run", 2, {"train.steps=6", "checkpoint.every_steps=2", "checkpoint.keep=2"}));
  EXPECT_EQ(names_in(folder_of(run, "run")),
            (std::vector<std::string>{"step_00000004.sharded", "step_00000006.sharded"}));
}

TEST(CheckpointsOfRuns, CanBeGivenByItsName) {
  const SmallRun run;
  run.run(2, divided(run, "whole", 2, {}));
  run.run(2, divided(run, "source", 2, {"train.steps=5"}));
  const auto source = checkpoint_path(folder_of(run, "source"), 5);
  run.run(2, divided(run, "branch", 2, {"checkpoint.resume=" + source.string()}));
  EXPECT_EQ(run.hash("branch"), run.hash("whole"));
}

}  // namespace
}  // namespace lockstep::train
