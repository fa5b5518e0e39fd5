// The pure parts of sharded checkpoints: boxes, who writes what, and the index as text.
#include <lockstep/base/crypto.h>
#include <lockstep/state/sharded/index.h>

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/expect_error.h"

namespace lockstep::state {
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

ShardedIndex replicated(BoxSizes shape, int ranks) {
  ShardedIndex index{.save = 1, .mesh = {.sizes = {ranks}, .names = {"data"}}, .metadata = {}, .tensors = {}};
  index.tensors["a"] = {.dtype = "F32", .shape = std::move(shape), .placements = {Replicate()}, .shards = {}};
  return index;
}

std::map<int, std::int64_t> elements_by_writer(const ShardedIndex& index, const std::vector<PlannedShard>& plan) {
  std::map<int, std::int64_t> elements;
  for (const auto& each : plan)
    elements[each.writer] += index.tensors.at(each.tensor).shards[each.shard].box.elements();
  return elements;
}

TEST(ShardPlan, ALargeTensorOfSeveralRanksIsCutSoThatAllWriteAsMuch) {
  auto index = replicated({4096, 1024}, 4);
  const auto plan = plan_shards(index);
  for (const auto& [writer, elements] : elements_by_writer(index, plan)) EXPECT_EQ(elements, 1024 * 1024) << writer;
  std::set<std::string> names;
  for (const auto& each : plan) names.insert(std::to_string(each.writer) + each.name);
  EXPECT_EQ(names.size(), plan.size());
  EXPECT_EQ(format_index(parse_index(format_index(index), "i")), format_index(index));
}

TEST(ShardPlan, NoShardIsLargerThanTheLimitUnlessARowIs) {
  auto index = replicated({1000, 1 << 20}, 1);  // 4 GB
  for (const auto& each : plan_shards(index)) {
    EXPECT_LE(index.tensors.at("a").shards[each.shard].box.elements() * 4, kMaxShardBytes);
  }
  index = replicated({2, 100 << 20}, 1);
  EXPECT_EQ(plan_shards(index).size(), 2u);
}

TEST(ShardPlan, OnlyWritersWriteAndGetWhatTheyDoNotHold) {
  ShardedIndex index{.save = 1, .mesh = {.sizes = {4}, .names = {"data"}}, .metadata = {}, .tensors = {}};
  index.tensors["divided"] = {.dtype = "F32", .shape = {8}, .placements = {Shard(0)}, .shards = {}};
  index.tensors["equal"] = {.dtype = "F32", .shape = {8}, .placements = {Replicate()}, .shards = {}};
  for (const auto& each : plan_shards(index, {}, {0, 1})) {
    EXPECT_TRUE(each.writer == 0 || each.writer == 1);
    const auto first = index.tensors.at(each.tensor).shards[each.shard].box.offset[0];
    if (each.tensor == "equal") {
      EXPECT_EQ(each.source, each.writer);
    } else {
      EXPECT_EQ(each.source, first / 2);
    }
  }
}

TEST(ShardPlan, PartsThatFollowFromNoPlacementsAreGiven) {
  ShardedIndex index{.save = 1, .mesh = {.sizes = {2}, .names = {"data"}}, .metadata = {}, .tensors = {}};
  index.tensors["a"] = {.dtype = "F32", .shape = {3, 4}, .placements = {Replicate()}, .shards = {}};
  Holders held;
  for (const auto& box : boxes_of_run({3, 4}, {4, 1}, 0, 6)) held[box] = {0};
  for (const auto& box : boxes_of_run({3, 4}, {4, 1}, 6, 6)) held[box] = {1};
  const auto plan = plan_shards(index, {{"a", held}});
  ASSERT_EQ(plan.size(), 4u);
  EXPECT_EQ(elements_by_writer(index, plan), (std::map<int, std::int64_t>{{0, 6}, {1, 6}}));
  EXPECT_EQ(format_index(parse_index(format_index(index), "i")), format_index(index));
}

// All runs of a tensor in several layouts, against its elements one by one.
TEST(ShardBoxes, OfARunAreItsElementsInTheOrderOfTheMemory) {
  const BoxSizes sizes{3, 2, 4};
  for (const BoxSizes& strides : {BoxSizes{8, 4, 1}, BoxSizes{1, 12, 3}, BoxSizes{8, 1, 2}}) {
    std::vector<BoxSizes> elements(24);
    for (std::int64_t a = 0; a < 3; ++a) {
      for (std::int64_t b = 0; b < 2; ++b) {
        for (std::int64_t c = 0; c < 4; ++c) {
          elements[static_cast<std::size_t>(a * strides[0] + b * strides[1] + c * strides[2])] = {a, b, c};
        }
      }
    }
    for (std::int64_t begin = 0; begin < 24; ++begin) {
      for (std::int64_t count = 0; begin + count <= 24; ++count) {
        const auto boxes = boxes_of_run(sizes, strides, begin, count);
        EXPECT_LE(boxes.size(), 6u);
        auto at = static_cast<std::size_t>(begin);
        for (const auto& box : boxes) {
          for (std::int64_t i = 0; i < box.elements(); ++i, ++at) {
            EXPECT_FALSE(intersection(box, {elements[at], {1, 1, 1}}).empty()) << begin << "+" << count;
          }
        }
        EXPECT_EQ(at, static_cast<std::size_t>(begin + count));
      }
    }
  }
}

TEST(ShardBoxes, OfATensorOfOneElementIsTheTensor) {
  EXPECT_EQ(boxes_of_run({}, {}, 0, 1), (std::vector<Box>{whole_box({})}));
  EXPECT_EQ(boxes_of_run({1, 5, 1}, {1, 1, 7}, 1, 3), (std::vector<Box>{{{0, 1, 0}, {1, 3, 1}}}));
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
}

TEST(ShardIndex, TheVersionBeforeIsReadToo) {
  auto value = nlohmann::json::parse(format_index(sample_index()));
  value.erase("sha256");
  value["lockstep_sharded"] = 1;
  Sha256 hash;
  hash.update(value.dump());
  value["sha256"] = hash.hex();
  EXPECT_EQ(format_index(parse_index(value.dump(), "i")), format_index(sample_index()));
}

// A version counts where the checksum says that it was written: else it is a changed bit.
TEST(ShardIndex, AnotherVersionIsOneThatWasWritten) {
  auto value = nlohmann::json::parse(format_index(sample_index()));
  for (const int version : {0, 3, 6}) {
    value["lockstep_sharded"] = version;
    expect_error(ErrorKind::data, {"index is damaged"}, [&] { parse_index(value.dump(), "i"); });
  }
  value["lockstep_sharded"] = 3;
  value.erase("sha256");
  Sha256 hash;
  hash.update(value.dump());
  value["sha256"] = hash.hex();
  expect_error(ErrorKind::unsupported, {"version 3", "reads 1 and 2"}, [&] { parse_index(value.dump(), "i"); });
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
      EXPECT_EQ(name(error.kind()), name(ErrorKind::data)) << error.what();
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
  expect_error(ErrorKind::data, {"fc.bias", "not a file name"}, [&] { parse_index(format_index(index), "i"); });
}

TEST(ShardIndex, AFolderWithoutOneIsNoCheckpoint) {
  expect_error(ErrorKind::data, {"/no/such/folder", "index.json"}, [] { read_index("/no/such/folder"); });
}

}  // namespace
}  // namespace lockstep::state
