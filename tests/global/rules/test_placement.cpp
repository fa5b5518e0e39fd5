#include <lockstep/base/error.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/placement.h>

#include "rules/all_placements.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using test::on_all_axes;

TEST(Placement, AllWaysToWriteThem) {
  const Placements expected{Shard(0), Replicate(), Partial(), Shard(12)};
  for (const auto* text : {"[Shard(0), Replicate(), Partial(sum), Shard(12)]", "S0,B,P,S12", "S(0), R, P, S(12)",
                           "(split(0), broadcast, partial_sum, split(12))",
                           "flow.sbp.split(0), flow.sbp.broadcast, flow.sbp.partial_sum, oneflow.sbp.split(12)",
                           " [ shard( 0 ) , REPLICATE , partial() , s12 ] "}) {
    EXPECT_EQ(parse_placements(text), expected) << text;
  }
  EXPECT_EQ(parse_placements("Partial(max), P(min), Partial(mean)"),
            (Placements{Partial(ReduceOp::max), Partial(ReduceOp::min), Partial(ReduceOp::mean)}));
}

TEST(Placement, WhatIsPrintedIsReadAgain) {
  const std::vector<Placement> each{
      Replicate(),           Shard(0), Shard(3), Partial(), Partial(ReduceOp::mean), Partial(ReduceOp::max),
      Partial(ReduceOp::min)};
  for (const auto& placements : on_all_axes(each, 2)) {
    EXPECT_EQ(parse_placements(to_string(placements)), placements) << to_string(placements);
  }
}

TEST(Placement, ErrorsShowWhereAndWhatToWrite) {
  for (const auto* text : {"", "Shard", "Shard()", "Shard(-1)", "Shard(1.5)", "Shard(99999999999)", "S0,,R", "[S0", "Q",
                           "Partial(product)", "Shard(0) Replicate()", "S0,"}) {
    try {
      const auto placements = parse_placements(text);
      ADD_FAILURE() << text << " was read as " << to_string(placements);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      EXPECT_NE(std::string(error.what()).find("[Shard(0), Replicate()]"), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(Shard(-1), Error);
  EXPECT_THROW(Partial(ReduceOp::product), Error);
}

TEST(EvenSplit, PartsCoverEveryRowOnceAndDifferByOneAtMost) {
  for (std::int64_t size = 0; size < 20; ++size) {
    for (int parts = 1; parts < 7; ++parts) {
      std::int64_t next = 0;
      for (int i = 0; i < parts; ++i) {
        const auto part = global::part_of(size, parts, i);
        EXPECT_EQ(part.begin, next);
        EXPECT_GE(part.size, size / parts);
        EXPECT_LE(part.size, size / parts + (i < size % parts ? 1 : 0));
        next += part.size;
      }
      EXPECT_EQ(next, size);
    }
  }
}

TEST(EvenSplit, AxesThatDivideTheSameDimensionDivideOneAfterTheOther) {
  const std::vector<int> mesh{2, 3};
  const Placements placements{Shard(0), Shard(0)};
  std::vector<std::int64_t> sizes;
  std::int64_t next = 0;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      const std::vector<int> at{i, j};
      const auto part = global::part_of(7, 0, placements, mesh, at);
      EXPECT_EQ(part.begin, next);
      next += part.size;
      sizes.push_back(part.size);
      EXPECT_EQ(global::local_sizes(std::vector<std::int64_t>{7, 5}, placements, mesh, at),
                (std::vector<std::int64_t>{part.size, 5}));
    }
  }
  EXPECT_EQ(next, 7);
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{2, 1, 1, 1, 1, 1}));
}

}  // namespace
}  // namespace lockstep
