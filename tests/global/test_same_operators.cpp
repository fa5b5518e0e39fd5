// Ranks that do not call the same operators get an error that says who called what; nobody waits for ever.
#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/global/global_tensor.h>

#include "base/expect_error.h"
#include "support/ranks.h"

#include <fmt/format.h>
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
INSTANTIATE_TEST_SUITE_P(Backends, SameOperators, testing::Values("shm", "tcp"),
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

/// What a program sees that makes a step for each batch of indices, and goes on with the next where one fails: each
/// loss, or the error. `dropout` draws random numbers before and after the step that may fail.
std::vector<std::string> steps_of(const std::vector<at::Tensor>& batches, at::Tensor table,
                                  const std::function<at::Tensor(const at::Tensor&)>& place) {
  torch::manual_seed(4);
  std::vector<std::string> seen;
  for (const auto& batch : batches) {
    try {
      const auto noisy = torch::dropout(table, 0.5, true);
      const auto rows = torch::embedding(noisy, place(batch));
      const auto loss = torch::dropout(rows, 0.25, true).pow(2).sum();
      table.mutable_grad() = at::Tensor();
      loss.backward();
      const at::NoGradGuard no_grad;
      table.sub_(table.grad(), 0.125);
      seen.push_back(fmt::format("{:.3f}", loss.item<double>()));
    } catch (const std::exception& error) {
      seen.emplace_back(error.what());
    }
  }
  return seen;
}

constexpr std::int64_t kTooLarge = 100;

at::Tensor indices_with_error_at(std::int64_t at) {
  auto indices = torch::arange(8, torch::kLong).remainder(5);
  if (at >= 0) indices[at] = kTooLarge;
  return indices;
}

void expect_errors_of_one_rank_are_had_by_all(Rank& rank, const Mesh& mesh, const Placements& batch) {
  // Of eight indices in a batch, the wrong ones are on the last rank, twice running, then on the first.
  const std::vector<std::int64_t> wrong_at{-1, 7, 7, -1, 0, -1, -1};
  std::vector<at::Tensor> batches;
  for (const auto at : wrong_at) batches.push_back(indices_with_error_at(at));
  const auto table = torch::arange(20, torch::kDouble).view({5, 4}).div(16);
  const auto expected = steps_of(batches, table.clone().requires_grad_(), [](const at::Tensor& x) { return x; });
  const auto got = steps_of(batches, distribute(table, mesh, Placements(mesh.axes())).requires_grad_(),
                            [&](const at::Tensor& x) { return distribute(x, mesh, batch, Source::same_everywhere); });
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (wrong_at[i] < 0) {
      EXPECT_EQ(got[i], expected[i]) << "step " << i << " on rank " << rank.rank();
      continue;
    }
    const int failed = wrong_at[i] == 0 ? 0 : rank.size() - 1;
    if (rank.rank() == failed) {
      expect_words(got[i], {"index out of range"});
    } else {
      expect_words(got[i], {fmt::format("rank {} failed in global operator", failed), "aten::embedding",
                            "index out of range", "This rank was in global operator"});
    }
  }
}

TEST_P(SameOperators, AnErrorOfOneRankIsHadByAllAndAllGoOn) {
  run_ranks(2, options(),
            [](Rank& rank) { expect_errors_of_one_rank_are_had_by_all(rank, Mesh(rank.group()), {Shard(0)}); });
}

TEST_P(SameOperators, AnErrorOfOneRankOfFourIsHadByAllAndAllGoOn) {
  run_ranks(4, options(), [](Rank& rank) {
    expect_errors_of_one_rank_are_had_by_all(rank, Mesh(rank.group()), {Shard(0)});
    expect_errors_of_one_rank_are_had_by_all(rank, Mesh(rank.group(), {2, 2}), {Shard(0), Shard(0)});
  });
}

TEST_P(SameOperators, AnErrorOfOneRankInAViewIsHadByAll) {
  run_ranks(2, options(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    // In memory, one of the parts has its columns first.
    const auto part = torch::arange(4, torch::kFloat).view({2, 2});
    const auto x = to_global(rank.rank() == 1 ? part.t() : part, mesh, {Shard(0)});
    std::string seen;
    try {
      full(torch::view_as_complex(x));
    } catch (const std::exception& error) {
      seen = error.what();
    }
    expect_words(seen, {"last dimension with stride 1"});
    if (rank.rank() == 0) expect_words(seen, {"rank 1 failed", "aten::view_as_complex of float32[4, 2] [Shard(0)]"});
    EXPECT_EQ(full(x.sum()).item<float>(), 12);
  });
}

TEST_P(SameOperators, AnErrorOfOneRankMayBeFollowedByOtherCollectivesOfTheGroup) {
  run_ranks(2, options(), [](Rank& rank) {
    const Mesh another(rank.group());
    const Mesh mesh(rank.group());
    const auto table = distribute(torch::ones({5, 2}), mesh, {Replicate()});
    const auto x = distribute(torch::ones({4, 2}), another, {Shard(0)});
    for (const bool comes_to_others_in_try : {true, false, true}) {
      const auto indices = distribute(indices_with_error_at(7), mesh, {Shard(0)}, Source::same_everywhere);
      std::string seen;
      const auto attempt = [&](const std::function<void()>& code) {
        try {
          code();
        } catch (const std::exception& error) {
          seen = error.what();
        }
      };
      attempt([&] {
        const auto rows = torch::embedding(table, indices);
        if (comes_to_others_in_try) full(rows.sum());
      });
      // Without a collective in between, the others have the error in this one.
      if (!comes_to_others_in_try && rank.rank() == 0) attempt([&] { barrier(rank.group()); });
      expect_words(seen, {"index out of range"});
      if (rank.rank() == 0) expect_words(seen, {"rank 1 failed in global operator", "aten::embedding"});
      EXPECT_TRUE(all_gather(at::tensor({rank.rank()}), rank.group()).equal(at::tensor({0, 1})));
      EXPECT_EQ(full(table.sum()).item<float>(), 10);
      EXPECT_EQ(full(x.sum()).item<float>(), 8);
    }
  });
}

TEST_P(SameOperators, AnErrorOfOneRankInBackwardLeavesBucketsThatAreUnderWay) {
  run_ranks(2, options(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    torch::manual_seed(1);
    std::vector<at::Tensor> values;
    for (int i = 0; i < 12; ++i) values.push_back(torch::randn({4, 4}));
    const auto input = torch::randn({6, 4});
    const auto train = [&](const std::vector<at::Tensor>& parameters, const at::Tensor& x, const at::Tensor& table,
                           const std::function<at::Tensor(int)>& indices) {
      std::vector<std::string> seen;
      for (int step = 0; step < 3; ++step) {
        auto y = x;
        for (std::size_t i = 0; i < parameters.size(); ++i) {
          y = y.mm(parameters[i]).tanh();
          if (i == 6) y.register_hook([&, step](const at::Tensor&) { torch::embedding(table, indices(step)); });
          if (parameters[i].grad().defined()) parameters[i].mutable_grad() = at::Tensor();
        }
        try {
          y.sum().backward();
          const at::NoGradGuard no_grad;
          for (auto each : parameters) each.sub_(each.grad(), 0.25);
          seen.push_back(fmt::format("{:.3f}", parameters[0].sum().item<double>()));
        } catch (const std::exception& error) {
          seen.emplace_back(error.what());
        }
      }
      return seen;
    };
    const auto indices_of = [](int step) { return indices_with_error_at(step == 1 ? 7 : -1); };
    std::vector<at::Tensor> ordinary;
    std::vector<at::Tensor> parameters;
    for (const auto& each : values) {
      ordinary.push_back(each.clone().requires_grad_());
      parameters.push_back(distribute(each, mesh, {Replicate()}).requires_grad_());
    }
    reduce_gradients_in_buckets(parameters, {.bucket_bytes = 100, .first_bucket_bytes = 1});
    const auto expected = train(ordinary, input, torch::ones({5, 2}), indices_of);
    const auto got =
        train(parameters, distribute(input, mesh, {Shard(0)}), distribute(torch::ones({5, 2}), mesh, {Replicate()}),
              [&](int step) { return distribute(indices_of(step), mesh, {Shard(0)}, Source::same_everywhere); });
    EXPECT_EQ(got[0], expected[0]);
    expect_words(got[1], {"index out of range"});
    EXPECT_EQ(got[2], expected[2]);
  });
}

TEST_P(SameOperators, AWrongLengthOfASequenceIsAnErrorOnAllRanksAtOnce) {
  run_ranks(2, options(), [](Rank& rank) {
    const Mesh mesh(rank.group());
    const auto scores = distribute(torch::randn({6, 4, 5}).log_softmax(2), mesh, {Shard(1)});
    const auto targets = distribute(torch::tensor({{1, 2, 3}, {3, 2, 1}, {2, 1, 2}, {4, 1, 4}}), mesh, {Shard(0)});
    const auto loss_with = [&](std::vector<std::int64_t> steps, std::vector<std::int64_t> lengths) {
      return torch::ctc_loss(scores, targets, steps, lengths, 0, at::Reduction::Sum);
    };
    const auto failing = [&](const std::function<void()>& code) -> std::string {
      try {
        code();
      } catch (const c10::Error& error) {
        return error.what_without_backtrace();
      }
      return "no error";
    };
    for (const std::size_t at : {0, 3}) {
      std::vector<std::int64_t> steps{6, 6, 6, 6};
      std::vector<std::int64_t> lengths{3, 3, 3, 3};
      steps[at] = 7;
      expect_words(failing([&] { loss_with(steps, {3, 3, 3, 3}); }), {"input_lengths", "7", "6"});
      lengths[at] = 4;
      expect_words(failing([&] { loss_with({6, 6, 6, 6}, lengths); }), {"target", "4"});
      const auto loss = full(loss_with({6, 6, 6, 6}, {3, 3, 3, 3}));
      EXPECT_GT(loss.item<float>(), 0);
    }
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
