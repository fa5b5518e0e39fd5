// One process merges and reshards.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/state/checkpoint.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/state/sharded/rewrite.h>

#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "state/sharded/saved_model.h"
#include "support/ranks.h"

namespace lockstep::state {
namespace {

using lockstep::test::expect_error;
using lockstep::test::Rank;
using lockstep::test::RankOptions;
using lockstep::test::run_ranks;

class Rewrite : public testing::Test {
 protected:
  Rewrite() {
    run_ranks(2, {.group = RankOptions::test_group_options("shm")}, [&](Rank& rank) {
      const Mesh mesh(rank.group());
      save_sharded(from(), test::distributed(test::whole_tensors(), mesh, test::on_one_axis()), {{"note", "mine"}});
    });
  }
  std::filesystem::path from() const { return folder_.path() / "from"; }
  std::filesystem::path to() const { return folder_.path() / "to"; }

  static void expect_whole(const std::filesystem::path& folder) {
    const auto tensors = test::without_values(test::whole_tensors());
    load_sharded(folder, tensors);
    test::expect_same(tensors, test::whole_tensors());
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(Rewrite, OtherMeshesHoldTheSameTensors) {
  const std::vector<PlacementRule> rules{{"conv.*", {Shard(1), Shard(0)}}, {"fc.*", {Shard(0), Shard(0)}}};
  const auto index = reshard(from(), to(), {.sizes = {2, 4}, .names = {"data", "model"}}, rules);
  EXPECT_EQ(index.tensors.at("fc.weight").shards.size(), 8u);
  EXPECT_EQ(index.tensors.at("ids").placements, (Placements{Replicate(), Replicate()}));
  EXPECT_EQ(load_sharded_metadata(to()).at("note"), "mine");
  expect_whole(to());
  expect_whole(from());
}

TEST_F(Rewrite, IntoTheSameFolderTakesThePlaceOfTheOld) {
  const auto before = read_index(from()).files();
  reshard(from(), from(), {.sizes = {5}, .names = {"0"}}, {});
  EXPECT_EQ(read_index(from()).tensors.at("fc.weight").placements, (Placements{Shard(1)}));
  expect_whole(from());
  for (const auto& file : before) EXPECT_FALSE(std::filesystem::exists(from() / file));
}

TEST_F(Rewrite, WhatRanksLoadAndWhatOneProcessMergesIsTheSame) {
  reshard(from(), to(), {.sizes = {3}, .names = {"0"}}, {{"*", {Replicate()}}});
  const auto file = to() / "merged.safetensors";
  ShardReader reader(to(), read_index(to()));
  merge_sharded(reader, file, {});
  test::expect_same(load_safetensors(file), test::whole_tensors());
}

TEST_F(Rewrite, RulesThatFitNothingAreRefusedAndNothingIsWritten) {
  const MeshShape mesh{.sizes = {2, 2}, .names = {"a", "b"}};
  expect_error(ErrorKind::invalid_argument, {"\"layer9.*\"", "inspect"}, [&] {
    reshard(from(), to(), mesh, {{"layer9.*", {Shard(0), Replicate()}}});
  });
  expect_error(ErrorKind::invalid_argument, {"1 placements for the 2 axes", "2x2 (a, b)"}, [&] {
    reshard(from(), to(), mesh, {{"fc.*", {Shard(0)}}});
  });
  expect_error(ErrorKind::invalid_argument, {"\"fc.bias\" [13]", "no 1"}, [&] {
    reshard(from(), to(), mesh, {{"fc.*", {Shard(1), Replicate()}}});
  });
  expect_error(ErrorKind::invalid_argument, {"not partial"}, [&] {
    reshard(from(), to(), mesh, {{"fc.*", {Partial(), Replicate()}}});
  });
  EXPECT_FALSE(std::filesystem::exists(to()));
}

}  // namespace
}  // namespace lockstep::state
