// Global tensors saved on one mesh come back, bit for bit, on others.
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
using test::distributed;
using test::expect_same;
using test::on_one_axis;
using test::on_two_axes;
using test::whole_tensors;
using test::without_values;

RankOptions on_shared_memory() { return {.group = RankOptions::test_group_options("shm")}; }

class ShardedCheckpoint : public testing::Test {
 protected:
  std::filesystem::path folder() const { return folder_.path() / "ckpt"; }
  std::filesystem::path file() const { return folder_.path() / "merged.safetensors"; }

  void save_on_four(int seed = 1, const SavedMetadata& metadata = {}) const {
    run_ranks(4, on_shared_memory(), [&](Rank& rank) {
      const Mesh mesh(rank.group(), {2, 2}, {"data", "model"});
      save_sharded(folder(), distributed(whole_tensors(seed), mesh, on_two_axes()), metadata);
    });
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(ShardedCheckpoint, ComesBackOnOtherNumbersOfRanksAndOtherPlacements) {
  save_on_four();
  for (const int ranks : {1, 3, 4}) {
    run_ranks(ranks, on_shared_memory(), [&](Rank& rank) {
      const Mesh mesh(rank.group());
      const auto tensors = distributed(without_values(whole_tensors()), mesh, on_one_axis());
      load_sharded(folder(), tensors);
      expect_same(tensors, whole_tensors());
      for (const auto& [name, placements] : on_one_axis()) EXPECT_EQ(placements_of(tensors.at(name)), placements);
    });
  }
}

TEST_F(ShardedCheckpoint, ComesBackOnTheSameMeshAndOnItsTranspose) {
  save_on_four();
  run_ranks(4, on_shared_memory(), [&](Rank& rank) {
    for (const char* first : {"data", "model"}) {
      const Mesh mesh(rank.group(), {2, 2}, {first, "other"});
      auto placements = on_two_axes();
      if (first == std::string("model")) {
        for (auto& [name, each] : placements) std::swap(each[0], each[1]);
      }
      const auto tensors = distributed(without_values(whole_tensors()), mesh, placements);
      load_sharded(folder(), tensors);
      expect_same(tensors, whole_tensors());
    }
  });
}

TEST_F(ShardedCheckpoint, MergedItIsTheWholeTensors) {
  save_on_four(1, {{"step", "40"}});
  ShardReader reader(folder(), read_index(folder()));
  merge_sharded(reader, file(), reader.index().metadata);
  expect_same(load_safetensors(file()), whole_tensors());
  EXPECT_EQ(load_safetensors_metadata(file()).at("step"), "40");
  EXPECT_EQ(load_sharded_metadata(folder()).at("step"), "40");
}

TEST_F(ShardedCheckpoint, AProcessWithoutAMeshLoadsWholeTensors) {
  save_on_four();
  const auto tensors = without_values(whole_tensors());
  load_sharded(folder(), tensors);
  expect_same(tensors, whole_tensors());
}

TEST_F(ShardedCheckpoint, PartialValuesAreFinishedForTheFileAndStayPartial) {
  run_ranks(2, on_shared_memory(), [&](Rank& rank) {
    const Mesh mesh(rank.group());
    const auto sum = to_global(torch::full({3}, rank.rank() + 1.0F), mesh, {Partial()});
    const auto most = to_global(torch::full({3}, rank.rank() + 1.0F), mesh, {Partial(ReduceOp::max)});
    save_sharded(folder(), {{"sum", sum}, {"max", most}});
    EXPECT_EQ(placements_of(sum), (Placements{Partial()}));

    const auto back = to_global(torch::ones({3}), mesh, {Partial()});
    const auto back_most = to_global(torch::ones({3}), mesh, {Partial(ReduceOp::max)});
    load_sharded(folder(), {{"sum", back}, {"max", back_most}});
    EXPECT_TRUE(torch::equal(full(back), torch::full({3}, 3.0F)));
    EXPECT_TRUE(torch::equal(full(back_most), torch::full({3}, 2.0F)));
  });
}

TEST_F(ShardedCheckpoint, TheNextSaveTakesThePlaceOfTheOneBefore) {
  save_on_four(1);
  const auto before = read_index(folder()).files();
  save_on_four(2);
  const auto tensors = without_values(whole_tensors());
  load_sharded(folder(), tensors);
  expect_same(tensors, whole_tensors(2));
  for (const auto& name : before) EXPECT_FALSE(std::filesystem::exists(folder() / name)) << name;
  std::size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder())) ++entries;
  EXPECT_EQ(entries, read_index(folder()).files().size() + 1);
}

TEST_F(ShardedCheckpoint, WhatDoesNotFitIsListedBeforeAnythingIsWritten) {
  save_on_four();
  auto wrong = without_values(whole_tensors());
  wrong["fc.weight"] = torch::zeros({6, 13});
  wrong["ids"] = torch::zeros({11}, torch::kInt);
  wrong["fc.scale"] = torch::zeros({13});
  expect_error(ErrorKind::data,
               {"\"fc.scale\" is not in it", "\"fc.weight\" is F32 [13, 6] in it and F32 [6, 13] here",
                "\"ids\" is I64 [11] in it and I32 [11] here", "checkpoint inspect"},
               [&] { load_sharded(folder(), wrong); });
  EXPECT_TRUE(torch::equal(wrong.at("conv.weight"), torch::zeros({7, 5, 3})));
  EXPECT_NO_THROW(load_sharded(folder(), {{"small", wrong.at("small")}}));  // a part may be asked for
}

TEST_F(ShardedCheckpoint, RanksThatSaveDifferentThingsAllGetAnError) {
  run_ranks(2, on_shared_memory(), [&](Rank& rank) {
    const Mesh mesh(rank.group());
    NamedTensors tensors{{"a", distribute(torch::ones({4}), mesh, {Shard(0)})}};
    if (rank.rank() == 1) tensors.emplace("b", torch::ones({4}));
    expect_error(ErrorKind::mismatch, {"ranks 0 and 1", "\"b\""}, [&] { save_sharded(folder(), tensors); });
    EXPECT_FALSE(std::filesystem::exists(folder()));
  });
}

TEST_F(ShardedCheckpoint, TensorsOfTwoMeshesOrNoneAreRefused) {
  run_ranks(2, on_shared_memory(), [&](Rank& rank) {
    const Mesh mesh(rank.group());
    const Mesh other(rank.group(), {2, 1});
    const NamedTensors tensors{{"a", distribute(torch::ones({4}), mesh, {Shard(0)})},
                               {"b", distribute(torch::ones({4}), other, {Shard(0), Replicate()})}};
    expect_error(ErrorKind::invalid_argument, {"one mesh", "\"a\"", "\"b\""}, [&] { save_sharded(folder(), tensors); });
    expect_error(ErrorKind::invalid_argument, {"torch::save"}, [&] {
      save_sharded(folder(), {{"a", torch::ones({2})}});
    });
  });
}

}  // namespace
}  // namespace lockstep::state
