// Saves that end badly leave the checkpoint before; damage is found and named.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/state/checkpoint.h>
#include <lockstep/state/sharded/rewrite.h>

#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "base/expect_error.h"
#include "base/small_disk.h"
#include "state/sharded/saved_model.h"
#include "support/forks.h"
#include "support/ranks.h"

namespace lockstep::state {
namespace {

using lockstep::test::expect_error;
using lockstep::test::Rank;
using lockstep::test::RankOptions;
using lockstep::test::run_ranks;
using test::expect_same;

RankOptions shared_memory() { return {.group = RankOptions::test_group_options("shm")}; }

NamedTensors big(const Mesh& mesh, std::int64_t rows, float value) {
  return {{"a", distribute(torch::full({rows, 64}, value), mesh, {Shard(0)}, Source::same_everywhere)},
          {"b", distribute(torch::full({rows, 64}, -value), mesh, {Shard(1)}, Source::same_everywhere)}};
}

void expect_holds(const std::filesystem::path& folder, std::int64_t rows, float value) {
  const NamedTensors tensors{{"a", torch::zeros({rows, 64})}, {"b", torch::zeros({rows, 64})}};
  load_sharded(folder, tensors);
  expect_same(tensors, {{"a", torch::full({rows, 64}, value)}, {"b", torch::full({rows, 64}, -value)}});
}

class ShardedFailures : public testing::Test {
 protected:
  std::filesystem::path folder() const { return folder_.path() / "ckpt"; }
  void save(std::int64_t rows, float value) const {
    run_ranks(2, shared_memory(), [&](Rank& rank) { save_sharded(folder(), big(Mesh(rank.group()), rows, value)); });
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(ShardedFailures, AKilledSaveLeavesTheOneBefore) {
  constexpr std::int64_t kRows = 20'000;  // 10 MB: some kills come in the middle
  save(kRows, 1);
  for (const int delay_ms : {0, 5, 20, 60, 120}) {
    lockstep::test::rank_outcomes(2, shared_memory(), [&](Rank& rank) {
      const auto tensors = big(Mesh(rank.group()), kRows, 2);
      std::jthread killer;
      if (rank.rank() == 1) {
        killer = std::jthread([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
          rank.kill_self();
        });
      }
      save_sharded(folder(), tensors);
    });
    const auto index = read_index(folder());
    EXPECT_TRUE(problems_of_shards(folder(), index, false).empty());
    // Either the old or the new one, never a mix.
    const NamedTensors tensors{{"a", torch::zeros({kRows, 64})}, {"b", torch::zeros({kRows, 64})}};
    load_sharded(folder(), tensors);
    const float value = tensors.at("a")[0][0].item<float>();
    EXPECT_TRUE(value == 1 || value == 2) << value;
    expect_holds(folder(), kRows, value);
  }
  // What the killed ones left is gone with the next save.
  save(8, 3);
  expect_holds(folder(), 8, 3);
  std::size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder())) ++entries;
  EXPECT_EQ(entries, read_index(folder()).files().size() + 1);
}

TEST_F(ShardedFailures, AFullDiskIsAnErrorOnAllRanksAndLeavesTheOneBefore) {
  if (const auto why = lockstep::test::why_no_small_disk(); !why.empty()) {
    GTEST_SKIP() << "no small disk here: " << why;
  }
  std::filesystem::create_directories(folder());
  lockstep::test::fork_ranks(1, {}, [&](int) {
    lockstep::test::mount_small_disk(folder(), 256 << 10);
    run_ranks(2, shared_memory(), [&](Rank& rank) {
      const Mesh mesh(rank.group());
      const auto what = expect_error(ErrorKind::io, {"save_00000001.rank_0000", "disk is full"},
                                     [&] { save_sharded(folder(), big(mesh, 4000, 1)); });
      EXPECT_TRUE(what);
      barrier(rank.group());
      EXPECT_TRUE(std::filesystem::is_empty(folder()));
      barrier(rank.group());
      save_sharded(folder(), big(mesh, 100, 2));  // the group goes on
    });
    expect_holds(folder(), 100, 2);
  });
}

// The disk is in rank 1's view of the file system alone: like hosts that share none.
TEST_F(ShardedFailures, ARankThatSeesAnotherFolderSendsItsPart) {
  if (const auto why = lockstep::test::why_no_small_disk(); !why.empty()) {
    GTEST_SKIP() << "no small disk here: " << why;
  }
  std::filesystem::create_directories(folder());
  run_ranks(2, shared_memory(), [&](Rank& rank) {
    if (rank.rank() == 1) lockstep::test::mount_small_disk(folder(), 256 << 10);
    save_sharded(folder(), big(Mesh(rank.group()), 4000, 1));
    EXPECT_EQ(std::filesystem::is_empty(folder()), rank.rank() == 1);
  });
  expect_holds(folder(), 4000, 1);
}

TEST_F(ShardedFailures, AMissingShardIsNamedOnAllRanks) {
  save(10, 1);
  const auto file = read_index(folder()).tensors.at("a").shards.at(1).file;
  std::filesystem::remove(folder() / file);
  run_ranks(2, shared_memory(), [&](Rank& rank) {
    const Mesh mesh(rank.group());
    expect_error(ErrorKind::data, {"shard of tensor \"a\" is missing", file}, [&] {
      load_sharded(folder(), {{"a", big(mesh, 10, 0).at("a")}});
    });
    barrier(rank.group());
  });
  EXPECT_EQ(problems_of_shards(folder(), read_index(folder()), true).size(), 1u);
}

TEST_F(ShardedFailures, ADamagedShardIsNamedOnAllRanks) {
  save(10, 1);
  const auto file = read_index(folder()).tensors.at("a").shards.at(0).file;
  {
    std::fstream stream(folder() / file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(-5, std::ios::end);
    stream.put('x');
  }
  run_ranks(2, shared_memory(), [&](Rank& rank) {
    const Mesh mesh(rank.group());
    expect_error(ErrorKind::data, {"is damaged", "SHA-256", file}, [&] { load_sharded(folder(), big(mesh, 10, 0)); });
    barrier(rank.group());
  });
  EXPECT_EQ(problems_of_shards(folder(), read_index(folder()), false).size(), 1u);
  EXPECT_TRUE(problems_of_shards(folder(), read_index(folder()), true).empty());
}

TEST_F(ShardedFailures, AFolderWithoutAnIndexIsAnErrorOnAllRanks) {
  run_ranks(2, shared_memory(), [&](Rank& rank) {
    const Mesh mesh(rank.group());
    expect_error(ErrorKind::data, {"index.json", "not a sharded checkpoint"},
                 [&] { load_sharded(folder(), big(mesh, 10, 0)); });
  });
}

}  // namespace
}  // namespace lockstep::state
