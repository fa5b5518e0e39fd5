// Sums have the bits of the tree over the ranks (comm/reduction/kernels.h) with every backend and every placement of
// the ranks.
#include "comm/suite.h"

#include <algorithm>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

// Of a rank's slice: more than engines send at once. (3 numbers are sent whole, 5003 in slices.)
constexpr std::int64_t kSeveralPieces = 70001;

// Of very different sizes, so that every other order of additions gives other bits.
at::Tensor noise(int rank, std::int64_t count, at::ScalarType dtype) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(rank) + 17);
  const auto options = at::TensorOptions().dtype(at::kDouble);
  const auto values = at::randn({count}, generator, options) * at::exp2(at::randn({count}, generator, options) * 3);
  return values.to(dtype);
}

// Narrow floats are added as float32 and rounded once.
at::Tensor expected(int size, std::int64_t count, at::ScalarType dtype, ReduceOp op) {
  const bool narrow = dtype == at::kHalf || dtype == at::kBFloat16;
  std::vector<at::Tensor> all;
  for (int rank = 0; rank < size; ++rank) all.push_back(noise(rank, count, dtype).to(narrow ? at::kFloat : dtype));
  auto sum = in_tree_order(all);
  if (op == ReduceOp::mean) sum = sum / size;
  return sum.to(dtype);
}

void expect_tree_order(Rank& rank, std::int64_t rows, at::ScalarType dtype, ReduceOp op) {
  const int n = rank.size();
  const auto count = rows * n;
  SCOPED_TRACE(std::string(at::toString(dtype)) + " " + std::string(name(op)) + " " + std::to_string(count));
  const auto mine = noise(rank.rank(), count, dtype);
  const auto sum = expected(n, count, dtype, op);
  auto everywhere = mine.clone();
  all_reduce(everywhere, rank.group(), op);
  EXPECT_TRUE(same(everywhere, sum));
  auto there = mine.clone();
  reduce(there, rank.group(), n - 1, op);
  EXPECT_TRUE(same(there, rank.rank() == n - 1 ? sum : mine));
  const auto part = reduce_scatter(mine, rank.group(), op);
  EXPECT_TRUE(same(part, sum.narrow(0, rank.rank() * rows, rows)));
}

void expect_tree_order(Rank& rank) {
  const int n = rank.size();
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    expect_tree_order(rank, 3, dtype, ReduceOp::sum);
    expect_tree_order(rank, 5003, dtype, ReduceOp::sum);
    expect_tree_order(rank, 5003, dtype, ReduceOp::mean);
  }
  expect_tree_order(rank, kSeveralPieces, at::kFloat, ReduceOp::sum);
  // In memory of the group, which shm reduces where it is.
  auto shared = allocate(rank.group(), kSeveralPieces, static_cast<int>(at::kFloat));
  shared.copy_(noise(rank.rank(), kSeveralPieces, at::kFloat));
  all_reduce(shared, rank.group());
  EXPECT_TRUE(same(shared, expected(n, kSeveralPieces, at::kFloat, ReduceOp::sum)));
}

class SumOrder : public CommSuite {};

INSTANTIATE_TEST_SUITE_P(All, SumOrder, testing::ValuesIn(cases()), case_name);

TEST_P(SumOrder, IsTheTreeOverTheRanks) {
  run([](Rank& rank) { expect_tree_order(rank); });
}

std::vector<Case> network_cases() {
  auto all = cases();
  std::erase_if(all, [](const auto& one) { return one.first != "tcp" && one.first != "mpi"; });
  return all;
}

class NetworkSums : public CommSuite {};

INSTANTIATE_TEST_SUITE_P(All, NetworkSums, testing::ValuesIn(network_cases()), case_name);

// Of two groups at once, waited for in opposite orders: each must go on while another is waited for.
TEST_P(NetworkSums, GoOnWhileOthersAreWaitedFor) {
  run([](Rank& rank) {
    const int n = rank.size();
    std::vector<int> everyone;
    for (int member = 0; member < n; ++member) everyone.push_back(member);
    const auto group = rank.group().unchecked();
    const auto other = rank.group().subgroup(everyone)->unchecked();
    std::vector<at::Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < 6; ++i) {
      tensors.push_back(noise(rank.rank(), 40000 + i, at::kFloat));
      works.push_back(all_reduce_async(tensors.back(), i % 2 == 0 ? group : other));
    }
    if (rank.rank() % 2 == 0) std::reverse(works.begin(), works.end());
    for (auto& work : works) work.wait();
    for (int i = 0; i < 6; ++i)
      EXPECT_TRUE(same(tensors[static_cast<std::size_t>(i)], expected(n, 40000 + i, at::kFloat, ReduceOp::sum)));
  });
}

/// A backend, or one letter for each rank's host.
class Placements : public testing::TestWithParam<const char*> {};

std::string placement_name(const testing::TestParamInfo<const char*>& info) { return info.param; }
INSTANTIATE_TEST_SUITE_P(Of, Placements, testing::Values("tcp5", "shm6", "abba", "aaabb", "aabbcc"), placement_name);
INSTANTIATE_TEST_SUITE_P(Thorough, Placements,
                         testing::Values("shm5", "tcp6", "shm8", "aaab", "abbb", "abab", "aabbb", "aaaabb", "abcabc",
                                         "aaabbb", "aaaabbbb", "aaabbbcc"),
                         placement_name);

TEST_P(Placements, GiveTheBitsOfTheTree) {
  if (mpirun_size()) GTEST_SKIP() << "makes its own ranks";
  const std::string text = GetParam();
  RankOptions options;
  int size = static_cast<int>(text.size());
  if (text.back() >= '0' && text.back() <= '9') {
    size = text.back() - '0';
    options.group.backend = text.substr(0, text.size() - 1);
  } else {
    options.group.backend = "hierarchy";
    for (const char letter : text) options.hosts.emplace_back(1, letter);
  }
  run_ranks(size, options, [&](Rank& rank) {
    ASSERT_EQ(rank.group().backend(), options.group.backend);
    expect_tree_order(rank);
  });
}

}  // namespace
}  // namespace lockstep::test
