#include <lockstep/global/rules/choose.h>

#include "rules/sample_call.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using global::choose;
using global::find_rule;
using test::call_of;

const std::vector<int> kFour{4};
const std::vector<int> kTwoByTwo{2, 2};

global::Choice chosen(const global::OpCall& call, const std::vector<Placements>& now, const std::vector<int>& mesh,
                      std::vector<std::optional<Placements>> wanted = {}) {
  return choose(find_rule(call.name), call, now, wanted, mesh);
}

TEST(Choose, NothingMovesWhereARuleFits) {
  const auto mm = call_of("mm", {{"self", {64, 32}}, {"mat2", {32, 16}}}, {{64, 16}});
  const auto rows = chosen(mm, {{Shard(0)}, {Replicate()}}, kFour);
  EXPECT_EQ(rows.outputs[0], Placements{Shard(0)});
  EXPECT_EQ(rows.bytes, 0);
  const auto common = chosen(mm, {{Shard(1)}, {Shard(0)}}, kFour);
  EXPECT_EQ(common.outputs[0], Placements{Partial()});
  EXPECT_EQ(common.bytes, 0);
}

TEST(Choose, AxesAreDecidedOnTheirOwn) {
  const auto mm = call_of("mm", {{"self", {64, 32}}, {"mat2", {32, 16}}}, {{64, 16}});
  const auto choice = chosen(mm, {{Shard(0), Shard(1)}, {Replicate(), Shard(0)}}, kTwoByTwo);
  EXPECT_EQ(choice.outputs[0], (Placements{Shard(0), Partial()}));
  EXPECT_EQ(choice.bytes, 0);
}

TEST(Choose, TheSmallerTensorMoves) {
  const auto add = call_of("add", {{"self", {64, 32}}, {"other", {32}}}, {{64, 32}});
  const auto choice = chosen(add, {{Shard(0)}, {Shard(0)}}, kFour);
  EXPECT_EQ(choice.inputs[0], Placements{Shard(0)});
  EXPECT_EQ(choice.inputs[1], Placements{Replicate()});
}

TEST(Choose, PartsThatDoNotBelongTogetherStandForAWrongCall) {
  // Of 3 ranks, the first has two rows of either: libtorch would see nothing wrong there.
  const auto call = call_of("atan2", {{"self", {4}}, {"other", {5}}}, {{4}});
  const auto choice = chosen(call, {{Shard(0)}, {Shard(0)}}, {3});
  EXPECT_EQ(choice.inputs[0], Placements{Replicate()});
  EXPECT_EQ(choice.inputs[1], Placements{Replicate()});
}

// The head of a language model whose weight is divided as in ZeRO 3: 210 MB of partial sums are more than its weight.
TEST(Choose, APartialResultCostsItsReduction) {
  const auto head = call_of("mm", {{"self", {8192, 128}}, {"mat2", {128, 6400}}}, {{8192, 6400}});
  const auto rows = chosen(head, {{Shard(0)}, {Shard(1)}}, kFour);
  EXPECT_EQ(rows.outputs[0], Placements{Shard(0)});
  EXPECT_EQ(rows.inputs[1], Placements{Replicate()});
  EXPECT_NEAR(rows.bytes, 0.75 * 128 * 6400 * 4, 100);
  // Of few words, the words are sent, and the weight is not.
  const auto few = call_of("mm", {{"self", {8, 4096}}, {"mat2", {4096, 4096}}}, {{8, 4096}});
  EXPECT_EQ(chosen(few, {{Shard(0)}, {Shard(0)}}, kFour).outputs[0], Placements{Partial()});
  // Beside another axis, which makes the partial sums small.
  const auto beside = call_of("mm", {{"self", {4, 64}}, {"mat2", {64, 64}}}, {{4, 64}});
  EXPECT_EQ(chosen(beside, {{Replicate(), Shard(0)}, {Shard(1), Shard(0)}}, {8, 2}).outputs[0],
            (Placements{Shard(1), Partial()}));
}

TEST(Choose, WhatLiesAsASumNeedsItStaysASum) {
  // Megatron's second layer, and the gradient of a weight in data parallel.
  const auto second = call_of("mm", {{"self", {8192, 512}}, {"mat2", {512, 128}}}, {{8192, 128}});
  EXPECT_EQ(chosen(second, {{Shard(1)}, {Shard(0)}}, kFour).outputs[0], Placements{Partial()});
  const auto gradient = call_of("mm", {{"self", {4096, 16}}, {"mat2", {16, 4096}}}, {{4096, 4096}});
  EXPECT_EQ(chosen(gradient, {{Shard(1)}, {Shard(0)}}, kFour).outputs[0], Placements{Partial()});
}

TEST(Choose, APartialSumIsReducedBeforeItGrows) {
  const auto wider = call_of("mm", {{"self", {64, 16}}, {"mat2", {16, 256}}}, {{64, 256}});
  EXPECT_EQ(chosen(wider, {{Partial()}, {Replicate()}}, kFour).inputs[0], Placements{Replicate()});
  const auto narrower = call_of("mm", {{"self", {64, 256}}, {"mat2", {256, 16}}}, {{64, 16}});
  EXPECT_EQ(chosen(narrower, {{Partial()}, {Replicate()}}, kFour).outputs[0], Placements{Partial()});
  const auto add = call_of("add", {{"self", {64, 16}}, {"other", {64, 16}}}, {{64, 16}});
  EXPECT_EQ(chosen(add, {{Partial()}, {Partial()}}, kFour).outputs[0], Placements{Partial()});
  const auto scaled = call_of("neg", {{"self", {64, 16}}}, {{64, 16}});
  EXPECT_EQ(chosen(scaled, {{Partial()}}, kFour).outputs[0], Placements{Partial()});
  auto wide = call_of("_to_copy", {{"self", {64, 16}}}, {{64, 16}});
  wide.outputs[0].element_bytes = 8;
  EXPECT_EQ(chosen(wide, {{Partial()}}, kFour).outputs[0], Placements{Partial()});
}

TEST(Choose, NoRuleGathersEverything) {
  const auto call = call_of("nobody_knows", {{"self", {8}}}, {{8}});
  const auto choice = choose(nullptr, call, {{Shard(0)}}, {}, kFour);
  EXPECT_EQ(choice.inputs[0], Placements{Replicate()});
  EXPECT_NEAR(choice.bytes, 24, 0.01);
}

TEST(Choose, WhatIsWrittenInPlaceStaysWhereItIs) {
  auto copy = call_of("copy", {{"self", {8, 8}}, {"src", {8, 8}}}, {{8, 8}});
  copy.in_place = true;
  const auto choice = chosen(copy, {{Shard(1)}, {Replicate()}}, kFour, {Placements{Shard(1)}});
  EXPECT_EQ(choice.outputs[0], Placements{Shard(1)});
  EXPECT_TRUE(choice.unread_self);

  auto normal = call_of("normal", {{"self", {8, 8}}}, {{8, 8}});
  normal.in_place = true;
  EXPECT_EQ(chosen(normal, {{Shard(1)}}, kFour).outputs[0], Placements{Shard(1)});
  EXPECT_EQ(chosen(normal, {{Replicate()}}, kFour).outputs[0], Placements{Replicate()});
  EXPECT_EQ(chosen(normal, {{Shard(1)}}, kFour, {Placements{Shard(0)}}).outputs[0], Placements{Shard(0)});
}

TEST(Choose, ANumberIsNotAddedToAPartialSumByEveryRank) {
  auto add = call_of("add", {{"self", {}}, {"other", {}}}, {{}});
  add.in_place = true;
  add.tensors[1].ordinary = true;
  const auto choice = chosen(add, {{Partial()}, {Replicate()}}, kFour, {Placements{Partial()}});
  EXPECT_EQ(choice.outputs[0], Placements{Replicate()});
}

TEST(Choose, PartialSumsAreFinishedWhereAFunctionIsNotLinear) {
  const auto exp = call_of("exp", {{"self", {8, 8}}}, {{8, 8}});
  const auto choice = chosen(exp, {{Partial()}}, kFour);
  EXPECT_EQ(choice.inputs[0], Placements{Replicate()});
  EXPECT_EQ(choice.outputs[0], Placements{Replicate()});
  const auto mul = call_of("mul", {{"self", {8, 8}}, {"other", {8, 8}}}, {{8, 8}});
  EXPECT_EQ(chosen(mul, {{Shard(1)}, {Partial(ReduceOp::max)}}, kFour).inputs[1], Placements{Shard(1)});
}

}  // namespace
}  // namespace lockstep
