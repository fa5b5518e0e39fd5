// Checkpoints in parts: what runs in the global view save, and where they go on.
#include <lockstep/train/checkpoint_folder.h>
#include <lockstep/train/divided_checkpoint.h>
#include <lockstep/train/sharded/index.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/expect_error.h"
#include "train/small_run.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using test::expect_words;
using test::read_file;
using test::SmallRun;

// Adam has state of every kind: tensors that are divided, and a number that is not.
RunConfig divided(const SmallRun& run, const std::string& name, int data_ranks, std::vector<std::string> more) {
  more.insert(more.begin(), {"parallel.mode=semi_auto", "parallel.shard={\"*\": {data: 0}}", "optimizer.name=adam",
                             "optimizer.lr=0.01", "data.batch_size=" + std::to_string(8 / data_ranks)});
  return run.config(name, std::move(more));
}

RunConfig replicated(const SmallRun& run, const std::string& name, int ranks, std::vector<std::string> more) {
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

TEST(DividedCheckpoint, AStoppedRunGoesOnBitForBit) {
  const SmallRun run;
  run.run(2, divided(run, "whole", 2, {}));
  run.run(2, divided(run, "parts", 2, {"train.steps=5"}));
  run.run(2, divided(run, "parts", 2, {}));
  EXPECT_EQ(run.hash("whole"), run.hash("parts"));
  EXPECT_EQ(run.losses("whole"), run.losses("parts"));
  expect_words(read_file(run.work_dir("parts") / "log/rank.0"), {"going on from", "step_00000005.sharded"});
}

TEST(DividedCheckpoint, EachRankWritesWhatItHoldsAndEachPartIsThereOnce) {
  const SmallRun run;
  run.run(2, divided(run, "run", 2, {"train.steps=3"}));
  const auto folder = divided_checkpoint(folder_of(run, "run"), 3);
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
  EXPECT_EQ(load_divided(folder).state.step, 3);
}

TEST(DividedCheckpoint, OtherWorldSizesMeshesAndModesGoOnFromIt) {
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

TEST(DividedCheckpoint, GoesOnFromAFileOfReplicas) {
  const SmallRun run;
  run.run(1, replicated(run, "alone", 1, {}));
  run.run(4, replicated(run, "run", 4, {"train.steps=5"}));
  ASSERT_TRUE(fs::exists(checkpoint_file(folder_of(run, "run"), 5)));
  run.run(2, divided(run, "run", 2, {}));
  expect_close_losses(run, "run", "alone");
}

TEST(DividedCheckpoint, ADamagedPartIsFoundAndTheOneBeforeIsUsed) {
  const SmallRun run;
  run.run(2, divided(run, "whole", 2, {}));
  run.run(2, divided(run, "run", 2, {"train.steps=6", "checkpoint.every_steps=3"}));
  const auto newest = divided_checkpoint(folder_of(run, "run"), 6);
  flip_middle_byte(newest / read_index(newest).files().back());
  run.run(2, divided(run, "run", 2, {}));
  EXPECT_EQ(run.hash("run"), run.hash("whole"));
  expect_words(read_file(run.work_dir("run") / "log/rank.0"),
               {"skipped the damaged checkpoint", "step_00000006.sharded", "going on from", "step_00000003.sharded"});
  EXPECT_TRUE(fs::exists(folder_of(run, "run") / "step_00000006.sharded.damaged"));
}

// What a kill leaves: parts without an index, and a removal that was not finished.
TEST(DividedCheckpoint, RemainsOfKilledSavesAreNotTakenAndGoAway) {
  const SmallRun run;
  run.run(2, divided(run, "run", 2, {"train.steps=3"}));
  const auto folder = folder_of(run, "run");
  const auto index = read_index(divided_checkpoint(folder, 3));
  fs::create_directory(folder / "step_00000006.sharded.saving");
  fs::copy_file(divided_checkpoint(folder, 3) / index.files().front(),
                folder / "step_00000006.sharded.saving" / index.files().front());
  fs::create_directory(folder / "step_00000001.sharded.removed");
  run.run(2, divided(run, "run", 2, {"train.steps=6", "checkpoint.keep=1"}));
  EXPECT_EQ(names_in(folder), std::vector<std::string>{"step_00000006.sharded"});
  EXPECT_EQ(load_divided(divided_checkpoint(folder, 6)).state.step, 6);
}

// The state changes while it is written: what is on disk is what it was.
TEST(DividedCheckpoint, WrittenInTheBackgroundItIsTheSame) {
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
    EXPECT_EQ(sha256_of(load_divided(folder_of(run, "later") / name).tensors),
              sha256_of(load_divided(folder_of(run, "at once") / name).tensors))
        << name;
  }
}

TEST(DividedCheckpoint, KeepCountsFilesAndFoldersAlike) {
  const SmallRun run;
  run.run(2, replicated(run, "run", 2, {"train.steps=2"}));
  run.run(2, divided(run, "run", 2, {"train.steps=6", "checkpoint.every_steps=2", "checkpoint.keep=2"}));
  EXPECT_EQ(names_in(folder_of(run, "run")),
            (std::vector<std::string>{"step_00000004.sharded", "step_00000006.sharded"}));
}

TEST(DividedCheckpoint, CanBeGivenByItsName) {
  const SmallRun run;
  run.run(2, divided(run, "whole", 2, {}));
  run.run(2, divided(run, "source", 2, {"train.steps=5"}));
  const auto source = divided_checkpoint(folder_of(run, "source"), 5);
  run.run(2, divided(run, "branch", 2, {"checkpoint.resume=" + source.string()}));
  EXPECT_EQ(run.hash("branch"), run.hash("whole"));
}

}  // namespace
}  // namespace lockstep::train
