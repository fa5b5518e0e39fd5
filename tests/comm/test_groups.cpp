// Groups, messages and asynchronous work: who is who, and in which order things happen.
#include <lockstep/comm/observe.h>

#include "comm/suite.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <thread>
#include <tuple>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;

class Groups : public CommSuite {};
INSTANTIATE_TEST_SUITE_P(All, Groups, testing::ValuesIn(cases()), case_name);

// A path that rank 0 chose, known to all.
std::filesystem::path shared_path(Rank& rank) {
  auto name = at::zeros({128}, at::kByte);
  if (rank.rank() == 0) {
    const auto path = std::filesystem::temp_directory_path() / ("lockstep-flag-" + std::to_string(::getpid()));
    const auto text = path.string();
    std::copy(text.begin(), text.end(), name.data_ptr<std::uint8_t>());
  }
  broadcast(name, rank.group());
  return reinterpret_cast<const char*>(name.data_ptr<std::uint8_t>());
}

void wait_for_file(const std::filesystem::path& path) {
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (!std::filesystem::exists(path)) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << path;
    std::this_thread::sleep_for(5ms);
  }
}

TEST_P(Groups, WorldGroupKnowsItself) {
  run([hosts = hosts_of(GetParam())](Rank& rank) {
    const auto& group = rank.group();
    EXPECT_EQ(group.rank(), rank.rank());
    EXPECT_EQ(group.size(), rank.size());
    const auto local = neighbours(hosts, group.ranks(), rank.rank());
    EXPECT_EQ(group.local_size(), static_cast<int>(local.size()));
    EXPECT_EQ(local[static_cast<std::size_t>(group.local_rank())], rank.rank());
    EXPECT_EQ(group.name(), "world");
    const auto& asked = rank.options().backend;
    EXPECT_EQ(group.backend(), rank.size() == 1 ? "self" : asked == "tls" ? "tcp" : asked);
    std::vector<int> everyone(static_cast<std::size_t>(rank.size()));
    std::iota(everyone.begin(), everyone.end(), 0);
    EXPECT_EQ(group.ranks(), everyone);
    EXPECT_EQ(group.world_rank(rank.size() - 1), rank.size() - 1);
    expect_words(error_of([&] { group.world_rank(rank.size()); }),
                 {"group rank", std::to_string(rank.size()), "world"});
    expect_words(error_of([&] { group.group_rank(-1); }), {"world rank -1", "not in group"});
  });
}

// All ranks again, in a group of its own.
Group another_world(Rank& rank) { return *rank.group().subgroup(rank.group().ranks()); }

// The sum over all ranks of tensors full of rank + 1, `times` over.
at::Tensor full_sum(Rank& rank, std::int64_t count, int times) {
  return at::full({count}, times * rank.size() * (rank.size() + 1) / 2, at::kFloat);
}

TEST_P(Groups, WorkOfTwoGroupsIsWaitedForInAnyOrder) {
  run([](Rank& rank) {
    const Group groups[] = {rank.group(), another_world(rank)};
    const bool first = rank.rank() == 0;
    for (const std::int64_t count : {10, 1000000}) {
      at::Tensor tensors[2];
      Work works[2];
      const auto begin = [&] {
        for (const int g : {0, 1}) {
          tensors[g] = at::full({count}, (g + 1) * (rank.rank() + 1), at::kFloat);
          works[g] = all_reduce_async(tensors[g], groups[g]);
        }
      };
      const auto check = [&](const char* how) {
        for (const int g : {0, 1}) EXPECT_TRUE(same(tensors[g], full_sum(rank, count, g + 1))) << how << " " << count;
      };
      begin();
      works[first ? 0 : 1].wait();
      works[first ? 1 : 0].wait();
      check("wait");

      begin();
      for (const int g : {first ? 0 : 1, first ? 1 : 0}) {
        while (!works[g].test()) std::this_thread::yield();
        works[g].wait();
      }
      check("test");

      // Other ranks need this one's part in what it never waits for.
      begin();
      if (first) works[0] = Work();
      works[first ? 1 : 0].wait();
      works[1].wait();
      barrier(groups[1]);
    }
  });
}

TEST_P(Groups, CallsThatWaitForAllRanksLetWorkOfOtherGroupsGoOn) {
  run([](Rank& rank) {
    const auto& group = rank.group();
    const Group other = another_world(rank);
    const auto calls = {
        std::function<void()>([&] { barrier(other); }), std::function<void()>([&] { barrier(other.unchecked()); }),
        std::function<void()>([&] { EXPECT_EQ(allocate(other, 3, static_cast<int>(at::kFloat)).numel(), 3); }),
        std::function<void()>([&] { EXPECT_EQ(other.subgroup(other.ranks())->size(), rank.size()); })};
    for (const auto& call : calls) {
      auto tensor = at::full({1000000}, rank.rank() + 1, at::kFloat);
      auto work = all_reduce_async(tensor, group);
      if (rank.rank() == 0) {
        call();
        work.wait();
      } else {
        work.wait();
        call();
      }
      EXPECT_TRUE(same(tensor, full_sum(rank, tensor.numel(), 1)));
    }
  });
}

// As in a grid whose rows and columns are groups.
TEST_P(Groups, WorkOfOverlappingSubgroupsIsWaitedForInAnyOrder) {
  run([](Rank& rank) {
    const int n = rank.size();
    const int me = rank.rank();
    std::vector<std::optional<Group>> pairs;  // of each rank and the next one
    for (int r = 0; r < n && n > 1; ++r) pairs.push_back(rank.group().subgroup({r, (r + 1) % n}));
    std::vector<at::Tensor> tensors;
    std::vector<Work> works;
    std::vector<int> sums;
    for (int r = 0; r < static_cast<int>(pairs.size()); ++r) {
      if (!pairs[static_cast<std::size_t>(r)]) continue;
      tensors.push_back(at::full({200000}, me, at::kFloat));
      works.push_back(all_reduce_async(tensors.back(), pairs[static_cast<std::size_t>(r)]->unchecked()));
      sums.push_back(r + (r + 1) % n);
    }
    if (me % 2 == 1) std::reverse(works.begin(), works.end());
    for (auto& work : works) work.wait();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_TRUE(same(tensors[i], at::full({200000}, sums[i], at::kFloat)));
    }
  });
}

// Too large for any engine to keep on the way.
TEST_P(Groups, LargeMessagesCrossWhenBothSidesWaitForTheirSends) {
  run([](Rank& rank) {
    const Group groups[] = {rank.group(), another_world(rank)};
    if (rank.size() < 2 || rank.rank() > 1) return;
    const int peer = 1 - rank.rank();
    // In one group, then each direction in a group of its own.
    for (const int way : {0, 1}) {
      const auto& out = groups[way * rank.rank()];
      const auto& in = groups[way * peer];
      const auto mine = at::full({4000000}, rank.rank(), at::kFloat);
      auto theirs = at::zeros({4000000});
      auto sent = send_async(mine, out, peer);
      auto received = receive_async(theirs, in, peer);
      sent.wait();
      received.wait();
      EXPECT_TRUE(same(theirs, at::full({4000000}, peer, at::kFloat))) << way;
    }
  });
}

TEST_P(Groups, SubgroupsTranslateRanksAndReduceAmongThemselves) {
  run([hosts = hosts_of(GetParam())](Rank& rank) {
    const int n = rank.size();
    // All ranks in reverse order; the even and the odd ones; each alone.
    std::vector<int> reversed(static_cast<std::size_t>(n));
    std::iota(reversed.rbegin(), reversed.rend(), 0);
    const auto backwards = rank.group().subgroup(reversed);
    ASSERT_TRUE(backwards);
    EXPECT_EQ(backwards->rank(), n - 1 - rank.rank());
    EXPECT_EQ(backwards->world_rank(0), n - 1);
    EXPECT_EQ(backwards->group_rank(n - 1), 0);
    const auto order = all_gather(at::full({1}, rank.rank(), at::kLong), *backwards);
    EXPECT_TRUE(same(order, at::arange(n - 1, -1, -1, at::kLong)));

    std::vector<std::vector<int>> halves(2);
    for (int r = 0; r < n; ++r) halves[static_cast<std::size_t>(r % 2)].push_back(r);
    for (int half = 0; half < std::min(n, 2); ++half) {
      const auto& members = halves[static_cast<std::size_t>(half)];
      const auto group = rank.group().subgroup(members);
      ASSERT_EQ(group.has_value(), rank.rank() % 2 == half);
      if (!group) continue;
      EXPECT_EQ(group->ranks(), members);
      EXPECT_FALSE(group->contains(1 - half));
      const auto local = neighbours(hosts, members, rank.rank());
      EXPECT_EQ(group->local_size(), static_cast<int>(local.size()));
      EXPECT_EQ(local[static_cast<std::size_t>(group->local_rank())], rank.rank());
      auto sum = at::full({3}, rank.rank() + 1, at::kLong);
      all_reduce(sum, *group);
      const auto expected = std::accumulate(members.begin(), members.end(), static_cast<int>(members.size()));
      EXPECT_TRUE(same(sum, at::full({3}, expected, at::kLong)));
      auto root = at::full({1}, rank.rank(), at::kLong);
      broadcast(root, *group, group->size() - 1);
      EXPECT_EQ(root.item<std::int64_t>(), members.back());
    }

    const auto alone = rank.group().subgroup({n - 1});
    ASSERT_EQ(alone.has_value(), rank.rank() == n - 1);
    if (alone) {
      EXPECT_EQ(alone->backend(), "self");
    }
    auto one = at::ones({1});
    all_reduce(one, rank.group());
    EXPECT_EQ(one.item<float>(), static_cast<float>(n));
  });
}

TEST_P(Groups, SubgroupsOfSubgroupsHaveNamesOfTheirOwn) {
  run([](Rank& rank) {
    const auto first = rank.group().subgroup(rank.group().ranks());
    const auto second = rank.group().subgroup(rank.group().ranks());
    const auto inner = first->subgroup(first->ranks());
    EXPECT_NE(first->name(), second->name());
    EXPECT_NE(first->name(), inner->name());
    // The same kind of call in all four, each with its own partners.
    int factor = 1;
    for (const auto& group : {rank.group(), *first, *second, *inner}) {
      auto tensor = at::full({2}, factor, at::kInt);
      all_reduce(tensor, group);
      EXPECT_TRUE(same(tensor, at::full({2}, factor++ * rank.size(), at::kInt)));
    }
  });
}

TEST_P(Groups, SubgroupListsAreChecked) {
  run([](Rank& rank) {
    const auto refused = [&](const std::vector<int>& list) { return error_of([&] { rank.group().subgroup(list); }); };
    expect_words(refused({}), {"at least one rank"});
    expect_words(refused({0, 0}), {"world rank 0", "twice"});
    expect_words(refused({rank.size()}), {"world rank " + std::to_string(rank.size()), "not in group \"world\""});
    if (rank.size() > 1) {
      const auto error = refused({rank.rank()});
      EXPECT_EQ(error.kind(), ErrorKind::mismatch);
      expect_words(error, {"rank 0: subgroup of world ranks 0", "rank 1: subgroup of world ranks 1"});
    }
    barrier(rank.group());
  });
}

TEST_P(Groups, MessagesGoRoundTheRing) {
  run([](Rank& rank) {
    if (rank.size() == 1) {  // a ring of one would be a message to itself
      expect_words(error_of([&] { send(at::ones({1}), rank.group(), 0); }), {"this rank itself"});
      return;
    }
    const int next = (rank.rank() + 1) % rank.size();
    const int previous = (rank.rank() + rank.size() - 1) % rank.size();
    for (const auto dtype : moved_dtypes()) {
      auto sent = send_async(numbers(rank.rank(), {4, 3}, dtype), rank.group(), next);
      auto got = at::zeros({3, 4}, dtype).t();  // received into a tensor of other strides
      receive(got, rank.group(), previous);
      sent.wait();
      EXPECT_TRUE(same(got, numbers(previous, {4, 3}, dtype)));
    }
  });
}

TEST_P(Groups, MessagesAreTakenByTagAndInOrder) {
  if (size() == 1) GTEST_SKIP() << "one rank has nobody to send to";
  run([](Rank& rank) {
    if (rank.rank() == 0) {
      std::vector<Work> works;
      for (int i = 0; i < 3; ++i) {
        works.push_back(send_async(at::full({2}, i, at::kInt), rank.group(), 1, 5));
        works.push_back(send_async(at::full({3}, 10 + i, at::kInt), rank.group(), 1, kMaxTag));
      }
      for (auto& work : works) work.wait();
    }
    if (rank.rank() == 1) {
      auto big = at::zeros({3}, at::kInt);
      auto small = at::zeros({2}, at::kInt);
      for (int i = 0; i < 3; ++i) {
        receive(big, rank.group(), 0, kMaxTag);
        EXPECT_TRUE(same(big, at::full({3}, 10 + i, at::kInt)));
      }
      for (int i = 0; i < 3; ++i) {
        receive(small, rank.group(), 0, 5);
        EXPECT_TRUE(same(small, at::full({2}, i, at::kInt)));
      }
    }
    barrier(rank.group());
  });
}

TEST_P(Groups, SeveralCollectivesAreUnderWayAtOnce) {
  run([](Rank& rank) {
    for (const bool checked : {true, false}) {
      const auto group = checked ? rank.group() : rank.group().unchecked();
      std::vector<at::Tensor> tensors;
      std::vector<Work> works;
      for (int i = 0; i < 12; ++i) {
        tensors.push_back(numbers(rank.rank() + i, {1000 * i + 1}, at::kFloat));
        works.push_back(i % 3 == 2 ? broadcast_async(tensors.back(), group, i % rank.size())
                                   : all_reduce_async(tensors.back(), group));
      }
      // Waited for in the reverse order, from a thread of its own.
      std::thread waiter([&] {
        for (std::size_t i = works.size(); i-- > 0;) works[i].wait();
      });
      waiter.join();
      for (int i = 0; i < 12; ++i) {
        EXPECT_TRUE(works[static_cast<std::size_t>(i)].test());
        auto expected = numbers(i, {1000 * i + 1}, at::kFloat);
        for (int r = 1; r < rank.size(); ++r) expected += numbers(r + i, {1000 * i + 1}, at::kFloat);
        if (i % 3 == 2) expected = numbers(i % rank.size() + i, {1000 * i + 1}, at::kFloat);
        EXPECT_TRUE(same(tensors[static_cast<std::size_t>(i)], expected)) << i;
      }
    }
  });
}

TEST_P(Groups, WorkOutlivesHandleOfGroup) {
  run([](Rank& rank) {
    auto tensor = at::ones({100});
    Work work;
    {
      const auto group = *rank.group().subgroup(rank.group().ranks());
      work = all_reduce_async(tensor, group);
    }
    work.wait();
    work.wait();  // again: complete already
    EXPECT_TRUE(same(tensor, at::full({100}, static_cast<float>(rank.size()))));
  });
}

TEST_P(Groups, WaitingTooShortlyIsNoFailure) {
  run([](Rank& rank) {
    const auto flag = shared_path(rank);
    const auto group = rank.group().unchecked();
    auto tensor = at::ones({8});
    if (rank.rank() == 0 && rank.size() > 1) {
      auto work = all_reduce_async(tensor, group);
      EXPECT_FALSE(work.test());
      const auto error = error_of([&] { work.wait(30ms); });
      EXPECT_EQ(error.kind(), ErrorKind::timeout);
      expect_words(error, {"all_reduce", "\"world\"", "30 ms"});
      std::ofstream(flag) << "go";
      work.wait();
    } else {
      if (rank.size() > 1) wait_for_file(flag);
      all_reduce(tensor, group);
    }
    EXPECT_TRUE(same(tensor, at::full({8}, static_cast<float>(rank.size()))));
    barrier(rank.group());
    if (rank.rank() == 0) std::filesystem::remove(flag);
  });
}

TEST_P(Groups, RememberTheirLastCalls) {
  run([](Rank& rank) {
    using Seen = std::tuple<std::string, std::uint64_t, std::string, std::uint64_t, std::string>;
    const auto calls_of = [&](const std::string& name) {
      std::vector<Seen> seen;
      for (const auto& group : recent_calls(rank.group())) {
        if (group.group != name) continue;
        for (const auto& call : group.calls) {
          EXPECT_TRUE(call.begun && call.completed) << call.op;
          if (!call.begun || !call.completed) continue;
          EXPECT_LE(call.asked, *call.begun);
          EXPECT_LE(*call.begun, *call.completed);
          seen.emplace_back(call.op, call.number, call.element, call.bytes, call.place);
        }
      }
      return seen;
    };
    barrier(rank.group());
    const auto before = calls_of("world");
    ASSERT_FALSE(before.empty());
    const auto first = std::get<1>(before.back());
    auto numbers = at::ones({2, 3}, at::kFloat);
    {
      const CallPlace place(name_place(rank.group(), "the first layer"));
      all_reduce(numbers, rank.group());
    }
    auto work = broadcast_async(numbers, rank.group(), 0);
    work.wait();
    work.wait();
    all_gather(at::ones({4}, at::kByte), rank.group());
    barrier(rank.group());
    auto seen = calls_of("world");
    seen.erase(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(before.size()));
    EXPECT_EQ(seen, (std::vector<Seen>{{"all_reduce", first + 1, "float32", 24, "the first layer"},
                                       {"broadcast", first + 2, "float32", 24, ""},
                                       {"all_gather", first + 3, "uint8", 4, ""},
                                       {"barrier", first + 4, "", 0, ""}}));
  });
}

TEST_P(Groups, RanksOfOneMachineHaveOneClock) {
  run([](Rank& rank) {
    const auto offset = clock_offset(rank.group());
    EXPECT_EQ(offset.to_rank_0.count(), 0);
    EXPECT_EQ(offset.accuracy > 0ns, rank.rank() > 0);
  });
}

TEST(ClockOffset, IsRightToHalfOfWhatTheAnswerTook) {
  // Rank 0's clock is 1000 ns ahead; the question takes 30 ns, the answer 10 ns.
  const auto offset = offset_from(100ns, 1130ns, 140ns);
  EXPECT_EQ(offset.to_rank_0, 1010ns);
  EXPECT_EQ(offset.accuracy, 21ns);
  EXPECT_EQ(offset_from(1100ns, 130ns, 1140ns).to_rank_0, -990ns);
  // What cannot be told from the same clock is the same clock.
  EXPECT_EQ(offset_from(100ns, 139ns, 140ns).to_rank_0, 0ns);
  EXPECT_EQ(offset_from(100ns, 101ns, 140ns).to_rank_0, 0ns);
}

}  // namespace
}  // namespace lockstep::test
