// The pure parts of sharded checkpoints: boxes, who writes what, and the index as text.
#include <lockstep/train/sharded/index.h>

#include <gtest/gtest.h>

#include <set>

#include "base/expect_error.h"

namespace lockstep::train {
namespace {

using test::expect_error;

ShardedIndex sample_index() {
  ShardedIndex index{
      .save = 7, .mesh = {.sizes = {2, 2}, .names = {"data", "model"}}, .metadata = {{"step", "12"}}, .tensors = {}};
  index.tensors["fc.weight"] = {.dtype = "F32", .shape = {5, 3}, .placements = {Shard(0), Shard(1)}, .shards = {}};
  index.tensors["fc.bias"] = {.dtype = "F32", .shape = {5}, .placements = {Replicate(), Shard(0)}, .shards = {}};
  index.tensors["step"] = {.dtype = "I64", .shape = {}, .placements = {Replicate(), Replicate()}, .shards = {}};
  index.tensors["none"] = {.dtype = "BOOL", .shape = {0, 4}, .placements = {Shard(0), Replicate()}, .shards = {}};
  plan_shards(index);
  return index;
}

TEST(ShardBoxes, AreThePartsOfTheRanks) {
  const MeshShape mesh{.sizes = {2, 2}, .names = {"a", "b"}};
  const auto boxes = boxes_of({5, 3}, {Shard(0), Shard(1)}, mesh);
  ASSERT_EQ(boxes.size(), 4u);
  EXPECT_EQ(boxes.at(Box{{0, 0}, {3, 2}}), (std::vector<int>{0}));
  EXPECT_EQ(boxes.at(Box{{3, 2}, {2, 1}}), (std::vector<int>{3}));
}

TEST(ShardBoxes, HoldersOfTheSameAreListedAndEmptyPartsAreNot) {
  const MeshShape mesh{.sizes = {2, 3}, .names = {"a", "b"}};
  const auto boxes = boxes_of({2}, {Replicate(), Shard(0)}, mesh);
  ASSERT_EQ(boxes.size(), 2u);
  EXPECT_EQ(boxes.at(Box{{1}, {1}}), (std::vector<int>{1, 4}));
}

TEST(ShardBoxes, IntersectionsMayBeEmpty) {
  EXPECT_EQ(intersection({{0, 0}, {3, 2}}, {{2, 1}, {3, 4}}), (Box{{2, 1}, {1, 1}}));
  EXPECT_TRUE(intersection({{0}, {3}}, {{3}, {2}}).empty());
  EXPECT_FALSE(intersection({{}, {}}, {{}, {}}).empty());
}

TEST(ShardPlan, EachBoxIsWrittenOnceAndTheWorkIsDivided) {
  ShardedIndex index{.save = 1, .mesh = {.sizes = {4}, .names = {"0"}}, .metadata = {}, .tensors = {}};
  for (const char name : {'a', 'b', 'c', 'd'}) {
    index.tensors[std::string(1, name)] = {.dtype = "F32", .shape = {10}, .placements = {Replicate()}, .shards = {}};
  }
  plan_shards(index);
  std::set<std::string> files;
  for (const auto& [name, tensor] : index.tensors) {
    ASSERT_EQ(tensor.shards.size(), 1u);
    files.insert(tensor.shards[0].file);
  }
  EXPECT_EQ(files.size(), 4u);  // one for each rank, though rank 0 could write all
}

TEST(ShardIndex, ComesBackAsItWas) {
  const auto index = sample_index();
  const auto text = format_index(index);
  const auto back = parse_index(text, "i");
  EXPECT_EQ(format_index(back), text);
  EXPECT_EQ(back.mesh, index.mesh);
  EXPECT_EQ(back.metadata, index.metadata);
  EXPECT_EQ(back.tensors.at("fc.weight").placements, (Placements{Shard(0), Shard(1)}));
  EXPECT_EQ(back.tensors.at("step").shards.size(), 1u);
  EXPECT_TRUE(back.tensors.at("none").shards.empty());
  EXPECT_EQ(names_in_file_order(back), (std::vector<std::string>{"step", "fc.bias", "fc.weight", "none"}));
}

TEST(ShardIndex, AnyChangedCharacterIsFound) {
  const auto text = format_index(sample_index());
  std::size_t harmless = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    auto changed = text;
    changed[at] = changed[at] == '7' ? '8' : '7';
    try {
      const auto back = parse_index(changed, "i");
      EXPECT_EQ(format_index(back), text);
      ++harmless;  // there is none: a digit in white space breaks the JSON
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == ErrorKind::data || error.kind() == ErrorKind::unsupported) << error.what();
    }
  }
  EXPECT_EQ(harmless, 0u);
}

TEST(ShardIndex, AnyCutIsFound) {
  const auto text = format_index(sample_index());
  for (std::size_t length = 0; length + 2 < text.size(); length += 11) {
    expect_error(ErrorKind::data, {"ckpt/index.json"}, [&] { parse_index(text.substr(0, length), "ckpt/index.json"); });
  }
}

TEST(ShardIndex, ShardsThatDoNotMakeTheTensorAreRefused) {
  auto index = sample_index();
  index.tensors.at("fc.weight").shards.pop_back();
  expect_error(ErrorKind::data, {"fc.weight", "elements"}, [&] { parse_index(format_index(index), "i"); });
  index = sample_index();
  index.tensors.at("fc.bias").shards[0].box.offset[0] = 4;
  expect_error(ErrorKind::data, {"fc.bias", "not inside [5]"}, [&] { parse_index(format_index(index), "i"); });
  index = sample_index();
  index.tensors.at("fc.bias").shards[0].file = "../elsewhere";
  expect_error(ErrorKind::data, {"fc.bias", "no file name"}, [&] { parse_index(format_index(index), "i"); });
}

TEST(ShardIndex, AFolderWithoutOneIsNoCheckpoint) {
  expect_error(ErrorKind::data, {"/no/such/folder", "index.json"}, [] { read_index("/no/such/folder"); });
}

}  // namespace
}  // namespace lockstep::train
