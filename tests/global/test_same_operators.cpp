// Ranks that do not call the same operators get an error that says who called what; nobody waits for ever.
#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/global/global_tensor.h>

#include "base/expect_error.h"
#include "support/ranks.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

namespace lockstep {
namespace {

using test::expect_words;
using test::Rank;
using test::rank_outcomes;
using test::RankOptions;
using test::run_ranks;

class SameOperators : public testing::TestWithParam<std::string> {
 protected:
  static RankOptions options() { return {.group = RankOptions::test_group_options(GetParam())}; }
};
INSTANTIATE_TEST_SUITE_P(Backends, SameOperators, testing::Values("shm", "gloo"),
                         [](const auto& one) { return one.param; });

Error error_of(const std::function<void()>& code) {
  try {
    code();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no Error was thrown";
  return Error(ErrorKind::io, "none", "none");
}

at::Tensor sharded(const Mesh& mesh) {
  return distribute(torch::arange(24, torch::kFloat).reshape({4, 6}), mesh, {Shard(0)});
}

TEST_P(SameOperators, AnotherOperatorIsReportedOnEveryRankWithBoth) {
  run_ranks(2, options(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    const auto x = sharded(mesh);  // global operator 1
    const auto y = rank.rank() == 0 ? torch::relu(x) : torch::tanh(x);
    const auto error = error_of([&] { full(y); });
    EXPECT_EQ(error.kind(), ErrorKind::mismatch) << error.what();
    expect_words(error.what(), {"all_gather", "The first difference is global operator 2: rank 0: aten::relu",
                                "; rank 1: aten::tanh", "[4, 6] [Shard(0)]"});
  });
}

TEST_P(SameOperators, PartsThatWouldMakeAWrongTensorAreNotSent) {
  run_ranks(2, options(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    const auto x = sharded(mesh);
    // Each rank has as many numbers of the same shape to send; only the operators before tell them apart.
    const auto y = rank.rank() == 0 ? x.slice(1, 0, 3).add(1) : x.slice(1, 3, 6).add(1).mul(2);
    const auto error = error_of([&] { full(y); });
    EXPECT_EQ(error.kind(), ErrorKind::mismatch) << error.what();
    expect_words(error.what(), {"first difference is global operator 3", "rank 1: aten::mul"});
    // The ranks stay apart.
    EXPECT_EQ(error_of([&] { full(x); }).kind(), ErrorKind::mismatch);
  });
}

TEST_P(SameOperators, TheSameOperatorOnAnotherShapeIsReportedWithBothShapes) {
  run_ranks(2, options(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    const auto x = sharded(mesh);
    const auto other = torch::relu(x.slice(1, 0, rank.rank() == 0 ? 2 : 5));  // 2, because a view alone does not count
    const auto error = error_of([&] { full(x); });
    EXPECT_EQ(error.kind(), ErrorKind::mismatch) << error.what();
    expect_words(error.what(), {"first difference is global operator 2", "rank 0: aten::relu of float32[4, 2]",
                                "rank 1: aten::relu of float32[4, 5]"});
  });
}

TEST_P(SameOperators, ASkippedOperatorIsReportedAtTheNextCollective) {
  run_ranks(2, options(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    auto x = sharded(mesh);
    if (rank.rank() == 1) x = torch::relu(x);
    x = x * 2;
    const auto error = error_of([&] { full(x); });
    EXPECT_EQ(error.kind(), ErrorKind::mismatch) << error.what();
    expect_words(error.what(), {"global operator 3", "global operator 4", "first difference is global operator 2",
                                "rank 0: aten::mul", "rank 1: aten::relu"});
  });
}

TEST_P(SameOperators, OneRankGoesOnToACollectiveOfItsOwn) {
  run_ranks(2, options(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    const auto x = sharded(mesh);
    const auto error = rank.rank() == 0 ? error_of([&] { full(x); }) : error_of([&] { barrier(rank.group()); });
    EXPECT_EQ(error.kind(), ErrorKind::mismatch) << error.what();
    expect_words(error.what(), {"rank 0: all_gather of float32[2, 6] in global operator 2", "rank 1: barrier"});
    if (rank.rank() == 0) expect_words(error.what(), {"redistribute float32[4, 6] [Shard(0)] to [Replicate()]"});
  });
}

TEST_P(SameOperators, ARankThatEndsIsNamedWithTheOperatorThatWaitsForIt) {
  run_ranks(2, options(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    const auto x = sharded(mesh);
    if (rank.rank() == 1) return;
    const auto error = error_of([&] { full(torch::relu(x)); });
    EXPECT_EQ(error.kind(), ErrorKind::peer_lost) << error.what();
    expect_words(error.what(), {"in global operator 3, redistribute float32[4, 6]", "rank 1 (pid"});
  });
}

TEST_P(SameOperators, RanksThatWaitInACircleSayAtTheDeadlineWhereTheyParted) {
  auto soon = options();
  soon.group.timeout = std::chrono::seconds(5);
  run_ranks(4, soon, [](Rank& rank) {
    const Mesh mesh(rank.group(), {2, 2}, {"data", "model"});
    const auto x = distribute(torch::arange(16, torch::kFloat).reshape({4, 4}), mesh, {Shard(0), Shard(1)});
    // Each waits for a rank that waits in the other direction.
    const bool along_data = rank.rank() == 0 || rank.rank() == 3;
    const auto error = error_of([&] {
      redistribute(x, along_data ? Placements{Replicate(), Shard(1)} : Placements{Shard(0), Replicate()});
    });
    expect_words(error.what(),
                 {"first difference is global operator 2", "[Replicate(), Shard(1)]", "[Shard(0), Replicate()]"});
  });
}

TEST_P(SameOperators, OneRankMayLookAtAReplicatedValue) {
  run_ranks(2, options(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    const auto x = sharded(mesh);
    const auto sum = redistribute(x.sum(), {Replicate()});
    if (rank.rank() == 0) {
      EXPECT_EQ(sum.item<float>(), 276);
      EXPECT_EQ(sum.detach().cpu().item<float>(), 276);
      EXPECT_EQ(full(sum).item<float>(), 276);
    }
    EXPECT_EQ(full(x).sum().item<float>(), 276);
  });
}

TEST_P(SameOperators, TheComparisonCanBeSwitchedOff) {
  auto unchecked = options();
  unchecked.environment.emplace("LOCKSTEP_CHECK_COLLECTIVES", "0");
  run_ranks(2, unchecked, [](Rank& rank) {
    const Mesh mesh(rank.group());
    const auto x = sharded(mesh);
    const auto y = rank.rank() == 0 ? torch::relu(x) : torch::tanh(x);
    EXPECT_EQ(full(y).sizes(), (std::vector<std::int64_t>{4, 6}));  // wrong numbers, as asked for
  });
}

}  // namespace
}  // namespace lockstep
