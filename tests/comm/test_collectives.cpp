// What each collective computes, for every dtype and operation, on exactly predictable numbers.
#include "comm/suite.h"

#include <chrono>
#include <thread>

namespace lockstep::test {
namespace {

const std::vector<std::int64_t> kShape = {3, 5};

std::vector<ReduceOp> ops_for(at::ScalarType dtype) {
  std::vector<ReduceOp> ops = {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product};
  if (at::isFloatingType(dtype)) ops.push_back(ReduceOp::mean);
  return ops;
}

std::string label(at::ScalarType dtype, ReduceOp op = ReduceOp::sum, int root = 0) {
  return std::string(at::toString(dtype)) + " " + std::string(name(op)) + " root " + std::to_string(root);
}

// numbers() of all ranks, along dimension 0.
at::Tensor everyones(int size, at::IntArrayRef shape, at::ScalarType dtype) {
  std::vector<at::Tensor> parts;
  for (int rank = 0; rank < size; ++rank) parts.push_back(numbers(rank, shape, dtype));
  return at::cat(parts);
}

class Collectives : public CommSuite {};
INSTANTIATE_TEST_SUITE_P(All, Collectives, testing::ValuesIn(cases()), case_name);

TEST_P(Collectives, AllReduce) {
  run([](Rank& rank) {
    for (const auto dtype : reduced_dtypes()) {
      for (const auto op : ops_for(dtype)) {
        auto tensor = numbers(rank.rank(), kShape, dtype);
        all_reduce(tensor, rank.group(), op);
        EXPECT_TRUE(same(tensor, reduced_numbers(rank.size(), kShape, dtype, op))) << label(dtype, op);
      }
    }
  });
}

TEST_P(Collectives, ReduceLeavesOtherRanksAlone) {
  run([](Rank& rank) {
    for (const auto dtype : reduced_dtypes()) {
      for (const auto op : ops_for(dtype)) {
        const int root = static_cast<int>(op) % rank.size();
        const auto mine = numbers(rank.rank(), kShape, dtype);
        auto tensor = mine.clone();
        reduce(tensor, rank.group(), root, op);
        const auto expected = rank.rank() == root ? reduced_numbers(rank.size(), kShape, dtype, op) : mine;
        EXPECT_TRUE(same(tensor, expected)) << label(dtype, op, root);
      }
    }
  });
}

TEST_P(Collectives, Broadcast) {
  run([](Rank& rank) {
    for (const auto dtype : moved_dtypes()) {
      for (int root = 0; root < rank.size(); ++root) {
        auto tensor = numbers(rank.rank(), kShape, dtype);
        broadcast(tensor, rank.group(), root);
        EXPECT_TRUE(same(tensor, numbers(root, kShape, dtype))) << label(dtype, ReduceOp::sum, root);
      }
    }
  });
}

TEST_P(Collectives, AllGatherAndGather) {
  run([](Rank& rank) {
    for (const auto dtype : moved_dtypes()) {
      const auto mine = numbers(rank.rank(), kShape, dtype);
      const auto all = everyones(rank.size(), kShape, dtype);
      EXPECT_TRUE(same(all_gather(mine, rank.group()), all)) << label(dtype);
      const int root = rank.size() - 1;
      EXPECT_TRUE(same(gather(mine, rank.group(), root), rank.rank() == root ? all : at::Tensor())) << label(dtype);
    }
    // A tensor without dimensions is one row.
    const auto ranks = all_gather(at::full({}, rank.rank(), at::kLong), rank.group());
    EXPECT_TRUE(same(ranks, at::arange(rank.size(), at::kLong)));
  });
}

TEST_P(Collectives, ReduceScatter) {
  run([](Rank& rank) {
    const std::vector<std::int64_t> shape = {2 * rank.size(), 3};
    for (const auto dtype : reduced_dtypes()) {
      for (const auto op : ops_for(dtype)) {
        const auto mine = reduce_scatter(numbers(rank.rank(), shape, dtype), rank.group(), op);
        const auto whole = reduced_numbers(rank.size(), shape, dtype, op);
        EXPECT_TRUE(same(mine, whole.narrow(0, 2 * rank.rank(), 2))) << label(dtype, op);
      }
    }
  });
}

TEST_P(Collectives, AllToAll) {
  run([](Rank& rank) {
    const std::vector<std::int64_t> shape = {2 * rank.size(), 3};
    for (const auto dtype : moved_dtypes()) {
      std::vector<at::Tensor> mine;
      for (int from = 0; from < rank.size(); ++from)
        mine.push_back(numbers(from, shape, dtype).narrow(0, 2 * rank.rank(), 2));
      EXPECT_TRUE(same(all_to_all(numbers(rank.rank(), shape, dtype), rank.group()), at::cat(mine))) << label(dtype);
    }
  });
}

TEST_P(Collectives, Scatter) {
  run([](Rank& rank) {
    const std::vector<std::int64_t> shape = {2 * rank.size(), 3};
    for (const auto dtype : moved_dtypes()) {
      for (int root = 0; root < rank.size(); ++root) {
        const auto whole = numbers(root, shape, dtype);
        const auto expected = whole.narrow(0, 2 * rank.rank(), 2);
        const auto got = rank.rank() == root ? scatter(whole, rank.group(), root, at::Tensor())
                                             : scatter(at::Tensor(), rank.group(), root, at::empty_like(expected));
        EXPECT_TRUE(same(got, expected)) << label(dtype, ReduceOp::sum, root);
      }
    }
  });
}

TEST_P(Collectives, OtherStridesAreCopiedInAndOut) {
  run([](Rank& rank) {
    const auto n = rank.size();
    // A transposed view, every second column, and channels last: none of them is contiguous.
    auto transposed = numbers(rank.rank(), {4, 6}, at::kFloat).t();
    const auto expected = reduced_numbers(n, {4, 6}, at::kFloat, ReduceOp::sum).t();
    auto a = transposed.clone(at::MemoryFormat::Preserve);
    ASSERT_FALSE(a.is_contiguous());
    all_reduce(a, rank.group());
    EXPECT_TRUE(same(a, expected));

    auto base = at::zeros({4, 6});
    auto columns = base.slice(1, 0, 6, 2);
    columns.copy_(numbers(rank.rank(), {4, 3}, at::kFloat));
    broadcast(columns, rank.group(), n - 1);
    EXPECT_TRUE(same(columns, numbers(n - 1, {4, 3}, at::kFloat)));
    EXPECT_EQ(base.slice(1, 1, 6, 2).abs().sum().item<float>(), 0) << "the columns in between were touched";

    auto image = numbers(rank.rank(), {2, 3, 4, 5}, at::kFloat).contiguous(at::MemoryFormat::ChannelsLast);
    all_reduce(image, rank.group());
    EXPECT_TRUE(image.is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_TRUE(same(image, reduced_numbers(n, {2, 3, 4, 5}, at::kFloat, ReduceOp::sum)));

    EXPECT_TRUE(same(all_gather(transposed, rank.group()).narrow(0, 6 * rank.rank(), 6), transposed));
    auto square = numbers(rank.rank(), {4 * n, 4 * n}, at::kInt).t();
    const auto whole = reduced_numbers(n, {4 * n, 4 * n}, at::kInt, ReduceOp::sum).t();
    EXPECT_TRUE(same(reduce_scatter(square, rank.group()), whole.narrow(0, 4 * rank.rank(), 4)));
  });
}

at::Tensor complex_numbers(int rank, at::IntArrayRef shape, at::ScalarType dtype) {
  const auto part = at::toRealValueType(dtype);
  return at::complex(numbers(rank, shape, part), numbers(rank + 1, shape, part) - 2);
}

TEST_P(Collectives, ComplexNumbersAreSummedAndAveraged) {
  run([](Rank& rank) {
    const int n = rank.size();
    for (const auto dtype : {at::kComplexFloat, at::kComplexDouble}) {
      const auto mine = complex_numbers(rank.rank(), {4 * n, 3}, dtype);
      auto sum = complex_numbers(0, {4 * n, 3}, dtype);
      for (int other = 1; other < n; ++other) sum += complex_numbers(other, {4 * n, 3}, dtype);
      for (const auto op : {ReduceOp::sum, ReduceOp::mean}) {
        const auto expected = op == ReduceOp::sum ? sum : sum / n;
        auto all = mine.clone();
        all_reduce(all, rank.group(), op);
        EXPECT_TRUE(at::allclose(all, expected)) << label(dtype, op);
        auto transposed = mine.t();
        all_reduce(transposed, rank.group(), op);
        EXPECT_TRUE(at::allclose(transposed, expected.t())) << label(dtype, op);
        mine.copy_(complex_numbers(rank.rank(), {4 * n, 3}, dtype));
        auto at_root = mine.clone();
        reduce(at_root, rank.group(), n - 1, op);
        EXPECT_TRUE(at::allclose(at_root, rank.rank() == n - 1 ? expected : mine)) << label(dtype, op);
        const auto part = reduce_scatter(mine, rank.group(), op);
        EXPECT_TRUE(at::allclose(part, expected.narrow(0, 4 * rank.rank(), 4))) << label(dtype, op);
      }
    }
  });
}

TEST_P(Collectives, LazyConjugatesAndNegativesAreTheirNumbers) {
  run([](Rank& rank) {
    const int n = rank.size();
    const auto of = [&](int of_rank) { return complex_numbers(of_rank, {n, 3}, at::kComplexFloat); };
    const auto mine = of(rank.rank()).conj();
    ASSERT_TRUE(mine.is_conj());
    std::vector<at::Tensor> all;
    for (int each = 0; each < n; ++each) all.push_back(of(each).conj_physical());
    const auto gathered = at::cat(all);
    EXPECT_TRUE(same(all_gather(mine, rank.group()), gathered));
    EXPECT_TRUE(same(all_gather(at::imag(mine), rank.group()), at::imag(gathered)));
    auto given = of(rank.rank()).conj();
    broadcast(given, rank.group(), n - 1);
    EXPECT_TRUE(same(given.resolve_conj(), all.back()));
    auto sum = of(rank.rank()).conj();
    all_reduce(sum, rank.group());
    EXPECT_TRUE(at::allclose(sum, at::stack(all).sum(0)));
    auto rows = of(rank.rank()).conj();
    EXPECT_TRUE(same(all_to_all(rows, rank.group()), at::stack(all).select(1, rank.rank())));
    auto output = at::empty({n * n, 3}, at::kComplexFloat).conj();
    const auto error = error_of([&] { all_gather_async(output, mine, rank.group()); });
    expect_words(error, {"output", "conj", "clone"});
  });
}

TEST_P(Collectives, EmptyTensorsAreFine) {
  run([](Rank& rank) {
    const auto n = rank.size();
    auto nothing = at::empty({0, 3});
    all_reduce(nothing, rank.group());
    reduce(nothing, rank.group(), 0);
    broadcast(nothing, rank.group());
    EXPECT_TRUE(same(all_gather(nothing, rank.group()), at::empty({0, 3})));
    EXPECT_TRUE(same(all_gather(at::empty({2, 0}), rank.group()), at::empty({2 * n, 0})));
    EXPECT_TRUE(same(reduce_scatter(nothing, rank.group()), at::empty({0, 3})));
    EXPECT_TRUE(same(all_to_all(nothing, rank.group()), at::empty({0, 3})));
    EXPECT_TRUE(same(gather(nothing, rank.group(), 0), rank.rank() == 0 ? at::empty({0, 3}) : at::Tensor()));
    EXPECT_TRUE(same(scatter(nothing, rank.group(), 0, nothing), at::empty({0, 3})));
    // And the group goes on.
    auto one = at::ones({1});
    all_reduce(one, rank.group());
    EXPECT_EQ(one.item<float>(), static_cast<float>(n));
  });
}

TEST_P(Collectives, OddSizesFromOneElementToMegabytes) {
  run([](Rank& rank) {
    for (const std::int64_t count : {1, 2, 3, 7, 1023, 65537, 1500001}) {
      auto tensor = numbers(rank.rank(), {count}, at::kFloat);
      all_reduce(tensor, rank.group());
      EXPECT_TRUE(same(tensor, reduced_numbers(rank.size(), {count}, at::kFloat, ReduceOp::sum))) << count;
    }
  });
}

TEST_P(Collectives, ResultIsBitEqualOnAllRanks) {
  run([](Rank& rank) {
    at::manual_seed(rank.rank());
    auto tensor = at::randn({100003});
    all_reduce(tensor, rank.group());
    auto root = tensor.clone();
    broadcast(root, rank.group());
    EXPECT_TRUE(same(tensor, root));
  });
}

TEST_P(Collectives, SixteenBitFloatsAreAccumulatedInFloat32) {
  run([](Rank& rank) {
    // 256 + 1 + 1 (+ 1) in bfloat16 stays 256; in float32 it is 258, which bfloat16 can hold, or 259, rounded to 260.
    for (const auto dtype : {at::kBFloat16, at::kHalf}) {
      const double big = dtype == at::kBFloat16 ? 256 : 2048;
      auto tensor = at::full({9}, rank.rank() == 0 ? big : 1.0, dtype);
      all_reduce(tensor, rank.group());
      const auto exact = static_cast<float>(big + rank.size() - 1);
      EXPECT_TRUE(same(tensor, at::full({9}, exact, at::kFloat).to(dtype))) << at::toString(dtype);
    }
  });
}

TEST_P(Collectives, LeavesThatRequireGradAreReducedWithoutHistory) {
  run([](Rank& rank) {
    auto parameter = at::full({2}, static_cast<float>(rank.rank() + 1)).requires_grad_();
    all_reduce(parameter, rank.group());
    EXPECT_TRUE(parameter.is_leaf());
    const auto n = rank.size();
    EXPECT_TRUE(same(parameter.detach(), at::full({2}, static_cast<float>(n * (n + 1) / 2))));
  });
}

TEST_P(Collectives, AllocatedMemoryIsReduced) {
  run([](Rank& rank) {
    auto memory = allocate(rank.group(), 1001, static_cast<int>(at::kFloat));
    ASSERT_EQ(memory.numel(), 1001);
    memory.copy_(numbers(rank.rank(), {1001}, at::kFloat));
    auto part = memory.narrow(0, 1, 999);
    all_reduce(part, rank.group());
    const auto expected = reduced_numbers(rank.size(), {1001}, at::kFloat, ReduceOp::sum);
    EXPECT_TRUE(same(part, expected.narrow(0, 1, 999)));
    EXPECT_TRUE(same(memory.narrow(0, 0, 1), numbers(rank.rank(), {1001}, at::kFloat).narrow(0, 0, 1)));
    EXPECT_EQ(allocate(rank.group(), 0, static_cast<int>(at::kInt)).numel(), 0);
  });
}

TEST_P(Collectives, BarrierWaitsForEveryRank) {
  run([](Rank& rank) {
    // Each rank's arrival is a number that all can see; after the barrier all have arrived.
    auto clock = at::zeros({2}, at::kLong);
    for (int round = 0; round < 5; ++round) {
      if (round % rank.size() == rank.rank()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      clock[0] = std::chrono::steady_clock::now().time_since_epoch().count();
      barrier(rank.group());
      clock[1] = std::chrono::steady_clock::now().time_since_epoch().count();
      const auto times = all_gather(clock.view({1, 2}), rank.group());
      EXPECT_LE(times.select(1, 0).max().item<std::int64_t>(), times.select(1, 1).min().item<std::int64_t>());
    }
  });
}

}  // namespace
}  // namespace lockstep::test
