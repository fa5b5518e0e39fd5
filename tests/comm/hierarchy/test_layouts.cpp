// What the collectives compute, however ranks lie on hosts: the common suite has one layout for each size, these are
// the awkward ones, with tensors of a size that is cut into slices and of one that is not.
#include "comm/suite.h"

#include <map>
#include <set>

namespace lockstep::test {
namespace {

constexpr int kFloat = static_cast<int>(at::kFloat);

/// One letter for each rank's host.
class Layouts : public testing::TestWithParam<const char*> {
 protected:
  void run(const RankBody& body) const {
    RankOptions options;
    options.group.backend = "hierarchy";
    const std::string letters = GetParam();
    for (const char letter : letters) options.hosts.emplace_back(1, letter);
    run_ranks(static_cast<int>(letters.size()), options, body);
  }
};

INSTANTIATE_TEST_SUITE_P(All, Layouts, testing::Values("abba", "aaab", "abcabc"),
                         [](const auto& layout) { return std::string(layout.param); });
INSTANTIATE_TEST_SUITE_P(Thorough, Layouts, testing::Values("abab", "abbb", "abaca", "aabbcc"),
                         [](const auto& layout) { return std::string(layout.param); });

// Elements of one rank's tensor: a few, and enough that hosts of several ranks cut it, with a rest.
const std::vector<std::int64_t> kCounts = {5, 200003};

at::Tensor everyones(int size, std::int64_t count, at::ScalarType dtype) {
  std::vector<at::Tensor> parts;
  for (int rank = 0; rank < size; ++rank) parts.push_back(numbers(rank, {count}, dtype));
  return at::cat(parts);
}

TEST_P(Layouts, ReductionsAreRight) {
  run([](Rank& rank) {
    const auto n = rank.size();
    ASSERT_EQ(rank.group().backend(), "hierarchy");
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kShort, at::kBool}) {
      for (const auto op : {ReduceOp::sum, ReduceOp::max, ReduceOp::mean}) {
        if (op == ReduceOp::mean && !at::isFloatingType(dtype)) continue;
        for (const auto count : kCounts) {
          SCOPED_TRACE(std::string(at::toString(dtype)) + " " + std::string(name(op)) + " " + std::to_string(count));
          const auto expected = reduced_numbers(n, {count}, dtype, op);
          auto everywhere = numbers(rank.rank(), {count}, dtype);
          all_reduce(everywhere, rank.group(), op);
          EXPECT_TRUE(same(everywhere, expected));
          const bool plain = dtype == at::kFloat && op == ReduceOp::sum;
          for (int root = plain ? 0 : n - 1; root < n; ++root) {
            auto there = numbers(rank.rank(), {count}, dtype);
            reduce(there, rank.group(), root, op);
            EXPECT_TRUE(same(there, rank.rank() == root ? expected : numbers(rank.rank(), {count}, dtype))) << root;
          }
        }
        const auto whole = reduced_numbers(n, {3001 * n}, dtype, op);
        const auto mine = reduce_scatter(numbers(rank.rank(), {3001 * n}, dtype), rank.group(), op);
        EXPECT_TRUE(same(mine, whole.narrow(0, 3001 * rank.rank(), 3001)));
      }
    }
  });
}

TEST_P(Layouts, CopiesAreRight) {
  run([](Rank& rank) {
    const auto n = rank.size();
    for (const auto dtype : {at::kFloat, at::kChar}) {
      for (const auto count : kCounts) {
        for (int root = 0; root < n; ++root) {
          auto tensor = numbers(rank.rank(), {count}, dtype);
          broadcast(tensor, rank.group(), root);
          EXPECT_TRUE(same(tensor, numbers(root, {count}, dtype))) << count << " from " << root;
        }
        const auto mine = numbers(rank.rank(), {count}, dtype);
        const auto all = everyones(n, count, dtype);
        EXPECT_TRUE(same(all_gather(mine, rank.group()), all)) << count;
        auto output = at::zeros({n * count}, mine.options());
        auto own_slice = output.narrow(0, rank.rank() * count, count);
        own_slice.copy_(mine);
        all_gather_async(output, own_slice, rank.group()).wait();
        EXPECT_TRUE(same(output, all)) << count;
        EXPECT_TRUE(same(gather(mine, rank.group(), n - 1), rank.rank() == n - 1 ? all : at::Tensor()));
        const auto whole = numbers(1, {n * count}, dtype);
        const auto got = scatter(rank.rank() == 1 ? whole : at::Tensor(), rank.group(), 1, mine);
        EXPECT_TRUE(same(got, whole.narrow(0, rank.rank() * count, count)));
      }
    }
  });
}

TEST_P(Layouts, MessagesGoFromEveryRankToEveryOther) {
  run([](Rank& rank) {
    const auto n = rank.size();
    std::vector<Work> works;
    std::map<int, at::Tensor> received;
    for (int peer = 0; peer < n; ++peer) {
      if (peer == rank.rank()) continue;
      works.push_back(send_async(at::full({1000}, 100 * rank.rank() + peer, at::kLong), rank.group(), peer, 3));
      received[peer] = at::zeros({1000}, at::kLong);
      works.push_back(receive_async(received[peer], rank.group(), peer, 3));
    }
    for (auto& work : works) work.wait();
    for (const auto& [peer, tensor] : received) {
      EXPECT_TRUE(same(tensor, at::full({1000}, 100 * peer + rank.rank(), at::kLong))) << peer;
    }
    std::vector<at::Tensor> parts;
    for (int from = 0; from < n; ++from)
      parts.push_back(numbers(from, {7 * n}, at::kInt).narrow(0, 7 * rank.rank(), 7));
    EXPECT_TRUE(same(all_to_all(numbers(rank.rank(), {7 * n}, at::kInt), rank.group()), at::cat(parts)));
  });
}

TEST_P(Layouts, RoundingIsTheSameOnAllRanksAndFromRunToRun) {
  run([](Rank& rank) {
    at::manual_seed(rank.rank());
    const auto noise = at::randn({300007});
    auto first = noise.clone();
    all_reduce(first, rank.group());
    auto root = first.clone();
    broadcast(root, rank.group());
    EXPECT_TRUE(same(first, root));
    // The same in memory that the host shares.
    auto again = allocate(rank.group(), 300007, kFloat);
    again.copy_(noise);
    all_reduce(again, rank.group());
    EXPECT_TRUE(same(again, first));
  });
}

TEST_P(Layouts, SubgroupsThatLieOnOneHostUseSharedMemoryAlone) {
  run([letters = std::string(GetParam())](Rank& rank) {
    for (const char host : std::set<char>(letters.begin(), letters.end())) {
      std::vector<int> members;
      for (std::size_t i = 0; i < letters.size(); ++i) {
        if (letters[i] == host) members.push_back(static_cast<int>(i));
      }
      const auto group = rank.group().subgroup(members);
      if (!group) continue;
      EXPECT_EQ(group->backend(), members.size() == 1 ? "self" : "shm");
      auto ones = at::ones({10});
      all_reduce(ones, *group);
      EXPECT_TRUE(same(ones, at::full({10}, static_cast<float>(members.size()))));
    }
  });
}

}  // namespace
}  // namespace lockstep::test
