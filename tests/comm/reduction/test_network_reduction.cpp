// Reductions as messages, without an engine: all ranks in this process, their messages delivered by hand.
#include <lockstep/comm/reduction/kernels.h>
#include <lockstep/comm/reduction/network_reduction.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace lockstep::test {
namespace {

using reduction::NetworkCall;
using reduction::NetworkReduction;
using reduction::RankRange;
using reduction::ResultOf;
using reduction::subtrees_of;
using Ranges = std::vector<RankRange>;

TEST(SumTree, SubtreesOfRanksThatFollowOneAnother) {
  EXPECT_EQ(subtrees_of({0, 1, 2, 3}, 4), (Ranges{{0, 4}}));
  EXPECT_EQ(subtrees_of({2, 3}, 4), (Ranges{{2, 2}}));
  EXPECT_EQ(subtrees_of({0, 1, 2}, 4), (Ranges{{0, 2}, {2, 1}}));
  EXPECT_EQ(subtrees_of({1, 2, 3}, 4), (Ranges{{1, 1}, {2, 2}}));
  // (((0+1)+(2+3))+(4+5)): the last two are a subtree, and so are 4, 5 and 6 of seven.
  EXPECT_EQ(subtrees_of({4, 5}, 6), (Ranges{{4, 2}}));
  EXPECT_EQ(subtrees_of({4, 5, 6}, 7), (Ranges{{4, 3}}));
  EXPECT_EQ(subtrees_of({3, 4, 5}, 6), (Ranges{{3, 1}, {4, 2}}));
}

TEST(SumTree, SubtreesOfRanksThatDoNot) {
  EXPECT_EQ(subtrees_of({0, 2}, 4), (Ranges{{0, 1}, {2, 1}}));
  EXPECT_EQ(subtrees_of({0, 1, 4, 5, 6, 7}, 8), (Ranges{{0, 2}, {4, 4}}));
}

// Values of very different sizes, so that every other order of additions gives other bits.
std::vector<float> numbers(int rank, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::vector<float> values(count);
  for (auto& x : values) x = std::ldexp(static_cast<float>(random() % 65536) + 1, static_cast<int>(random() % 24) - 32);
  return values;
}

float tree_sum(const std::vector<std::vector<float>>& all, int first, int count, std::size_t i) {
  if (count == 1) return all[static_cast<std::size_t>(first)][i];
  const int left = reduction::left_of(count);
  return tree_sum(all, first, left, i) + tree_sum(all, first + left, count - left, i);
}

/// The participants: which of the ranks' numbers each brings.
using Placement = std::vector<std::vector<int>>;

struct Participant {
  std::vector<float> input;
  std::vector<float> output;
  std::unique_ptr<NetworkReduction> reduction;
  std::map<int, std::vector<NetworkReduction::Message>> receives;  // by exchange
};

// Lets all participants make a reduction in which each exchange is complete before the next but one begins.
std::vector<std::vector<float>> reduce(const Placement& placement, ResultOf kind, int root, std::size_t count,
                                       bool in_place) {
  const int participants = static_cast<int>(placement.size());
  int ranks = 0;
  for (const auto& members : placement) ranks += static_cast<int>(members.size());
  std::vector<std::vector<float>> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(numbers(rank, count));
  std::vector<Ranges> brought;
  for (const auto& members : placement) brought.push_back(subtrees_of(members, ranks));

  std::vector<Participant> everyone(placement.size());
  for (int me = 0; me < participants; ++me) {
    auto& one = everyone[static_cast<std::size_t>(me)];
    for (const auto& tree : brought[static_cast<std::size_t>(me)]) {
      for (std::size_t i = 0; i < count; ++i) one.input.push_back(tree_sum(all, tree.first, tree.count, i));
    }
    one.output.resize(kind == ResultOf::reduce_scatter ? count / placement.size() : count, -1.0F);
    const bool writes = kind != ResultOf::reduce || me == root;
    NetworkCall call;
    call.kind = kind;
    call.rank = me;
    call.root = root;
    call.brought = brought;
    call.input = reinterpret_cast<const std::byte*>(one.input.data());
    call.bytes = count * sizeof(float);
    call.item_bytes = sizeof(float);
    if (writes) call.output = reinterpret_cast<std::byte*>(in_place ? one.input.data() : one.output.data());
    call.kernel = reduction::reduce_kernel(reduction::DType::float32, ReduceOp::sum);
    one.reduction = std::make_unique<NetworkReduction>(call);
  }

  // What is under way from one to another, in order.
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> lines;
  const int exchanges = everyone.front().reduction->exchanges();
  for (int k = 0; k <= exchanges; ++k) {
    for (int me = 0; me < participants && k < exchanges; ++me) {
      auto& one = everyone[static_cast<std::size_t>(me)];
      EXPECT_EQ(one.reduction->exchanges(), exchanges);
      const auto exchange = one.reduction->exchange(k);
      for (const auto& message : exchange.sends) {
        lines[{me, message.peer}].emplace_back(message.data, message.data + message.bytes);
      }
      one.receives[k] = exchange.receives;
    }
    for (int me = 0; me < participants && k > 0; ++me) {
      auto& one = everyone[static_cast<std::size_t>(me)];
      for (const auto& message : one.receives[k - 1]) {
        auto& line = lines[{message.peer, me}];
        if (line.empty() || line.front().size() != message.bytes) {
          ADD_FAILURE() << "rank " << message.peer << " does not send what " << me << " receives in " << k - 1;
          return {};
        }
        std::memcpy(message.data, line.front().data(), message.bytes);
        line.pop_front();
      }
      one.reduction->finished(k - 1);
    }
  }
  for (const auto& [ends, line] : lines) EXPECT_TRUE(line.empty()) << ends.first << " to " << ends.second;
  std::vector<std::vector<float>> results;
  for (auto& one : everyone) results.push_back(in_place ? one.input : one.output);
  return results;
}

const std::vector<Placement> kPlacements = {
    {{0, 1}},
    {{0}, {1}},
    {{0}, {1}, {2}},
    {{0}, {1}, {2}, {3}, {4}},
    {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}},
    {{0, 1}, {2, 3}},
    {{0, 1, 2}, {3}},
    {{0}, {1, 2, 3}},
    {{0, 2}, {1, 3}},
    {{0, 1, 2}, {3, 4, 5}},
    {{0, 3, 4}, {1}, {2, 5, 6, 7}},
};

// Lengths that go whole, in slices of which some are empty or short, and in several pieces.
TEST(NetworkReduction, GivesTheBitsOfTheTreeHoweverRanksArePlaced) {
  for (const auto& placement : kPlacements) {
    const auto participants = placement.size();
    int ranks = 0;
    for (const auto& members : placement) ranks += static_cast<int>(members.size());
    for (const std::size_t blocks : {1UL, 700UL, 9000UL, 150001UL}) {
      const std::size_t count = blocks * participants;
      if (participants > 2 && blocks > 100000) continue;
      SCOPED_TRACE(testing::Message() << ranks << " ranks of " << participants << ", " << count << " numbers");
      std::vector<std::vector<float>> all;
      for (int rank = 0; rank < ranks; ++rank) all.push_back(numbers(rank, count));
      std::vector<float> expected(count);
      for (std::size_t i = 0; i < count; ++i) expected[i] = tree_sum(all, 0, ranks, i);

      for (const auto& result : reduce(placement, ResultOf::all_reduce, 0, count, false)) EXPECT_EQ(result, expected);
      if (ranks == static_cast<int>(participants)) {
        for (const auto& result : reduce(placement, ResultOf::all_reduce, 0, count, true)) EXPECT_EQ(result, expected);
      }
      const int root = static_cast<int>(participants) - 1;
      EXPECT_EQ(reduce(placement, ResultOf::reduce, root, count, false).back(), expected);
      const auto scattered = reduce(placement, ResultOf::reduce_scatter, 0, count, false);
      for (std::size_t i = 0; i < participants; ++i) {
        const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(i * blocks);
        EXPECT_EQ(scattered.at(i), std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(blocks)));
      }
    }
  }
}

TEST(NetworkReduction, MovesNoMoreThanARing) {
  constexpr int kRanks = 4;
  constexpr std::size_t kBytes = 4 << 20;
  std::vector<std::byte> input(kBytes);
  NetworkCall call;
  call.brought = reduction::one_each(kRanks);
  call.input = input.data();
  call.output = input.data();
  call.bytes = kBytes;
  call.item_bytes = sizeof(float);
  call.kernel = reduction::reduce_kernel(reduction::DType::float32, ReduceOp::sum);
  NetworkReduction reduction(call);
  std::size_t sent = 0;
  std::size_t received = 0;
  for (int k = 0; k < reduction.exchanges(); ++k) {
    const auto exchange = reduction.exchange(k);
    for (const auto& message : exchange.sends) sent += message.bytes;
    for (const auto& message : exchange.receives) received += message.bytes;
  }
  EXPECT_EQ(sent, 2 * (kRanks - 1) * kBytes / kRanks);
  EXPECT_EQ(received, sent);
}

}  // namespace
}  // namespace lockstep::test
