// Ranks that die, give up, come late or send what nobody asked for: the others get an error soon, with the reason.
#include <lockstep/base/temporary_folder.h>

#include "comm/suite.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;

// Each rank a process that may die: not under mpirun, which ends the whole job then.
std::vector<Case> fatal_cases() {
  if (mpirun_size()) return {};
  return {{"tcp", 3}, {"shm", 3}, {"tls", 3}, {"hierarchy", 3}, {"hierarchy_tls", 3}};
}

class Failures : public testing::TestWithParam<Case> {
 protected:
  static RankOptions options(Rendezvous rendezvous = Rendezvous::file) {
    auto options = options_of(GetParam());
    // Ranks are known by their addresses across hosts, and those come with this rendezvous only.
    options.rendezvous = options.hosts.empty() ? rendezvous : Rendezvous::tcp;
    return options;
  }

  /// Runs the body; ranks in `killed` must end by SIGKILL, the others well.
  static void run(const RankOptions& options, const std::vector<int>& killed, const RankBody& body) {
    for (const auto& outcome : rank_outcomes(GetParam().second, options, body)) {
      const bool dies = std::find(killed.begin(), killed.end(), outcome.rank) != killed.end();
      EXPECT_TRUE(dies ? outcome.status.signal == SIGKILL && !outcome.hit_deadline : outcome.ok()) << describe(outcome);
    }
  }
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Failures);
INSTANTIATE_TEST_SUITE_P(All, Failures, testing::ValuesIn(fatal_cases()), case_name);

std::string pid_of(Rank& rank, int whose) {
  const auto pids = all_gather(at::full({1}, static_cast<std::int64_t>(::getpid()), at::kLong), rank.group());
  return std::to_string(pids[whose].item<std::int64_t>());
}

/// What ranks tell each other besides the group: that they came so far.
class Notes {
 public:
  void leave(int rank) const { std::ofstream(folder_.path() / std::to_string(rank)) << "here"; }
  void wait_for(std::ptrdiff_t count) const {
    const auto deadline = std::chrono::steady_clock::now() + 120s;
    const auto left = [&] { return std::distance(std::filesystem::directory_iterator(folder_.path()), {}); };
    while (left() < count && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(5ms);
    EXPECT_GE(left(), count);
  }

 private:
  const TemporaryFolder folder_;
};

// Later calls fail at once and still name the first reason.
void expect_stays_failed(const Group& group, const std::vector<std::string>& words) {
  auto tensor = at::ones({2});
  const auto start = std::chrono::steady_clock::now();
  const auto error = error_of([&] { all_reduce(tensor, group); });
  EXPECT_LT(std::chrono::steady_clock::now() - start, group.timeout() / 2);
  expect_words(error, {"failed before"});
  expect_words(error, words);
  expect_words(error_of([&] { send(tensor, group, group.rank() == 0 ? 1 : 0); }), {"failed before"});
}

TEST_P(Failures, DeadRankIsNamed) {
  for (const auto rendezvous : {Rendezvous::file, Rendezvous::tcp}) {
    run(options(rendezvous), {2}, [](Rank& rank) {
      const auto pid = pid_of(rank, 2);
      if (rank.rank() == 2) rank.kill_self();
      auto tensor = at::ones({1000});
      const auto error = error_of([&] { all_reduce(tensor, rank.group()); });
      EXPECT_EQ(error.kind(), ErrorKind::peer_lost);
      expect_words(error,
                   {"all_reduce", "\"world\"", "rank " + std::to_string(rank.rank()) + " of 3", "rank 2 (pid " + pid});
      expect_stays_failed(rank.group(), {"rank 2 (pid " + pid});
    });
  }
}

TEST_P(Failures, DeathWhileAnotherIsWaitingIsNoticed) {
  run(options(), {1}, [](Rank& rank) {
    const auto pid = pid_of(rank, 1);
    const auto group = rank.group().unchecked();
    auto tensor = at::ones({1 << 20});
    if (rank.rank() == 1) {
      std::this_thread::sleep_for(300ms);  // by now the others are in the middle of it
      rank.kill_self();
    }
    auto work = all_reduce_async(tensor, group);
    const auto error = error_of([&] { work.wait(); });
    EXPECT_EQ(error.kind(), ErrorKind::peer_lost);
    expect_words(error, {"rank 1 (pid " + pid});
    expect_words(error_of([&] { work.wait(); }), {"rank 1 (pid " + pid});
    EXPECT_TRUE(work.test());
  });
}

TEST_P(Failures, RankHoldingTheStoreDies) {
  run(options(Rendezvous::tcp), {0}, [](Rank& rank) {
    const auto pid = pid_of(rank, 0);
    if (rank.rank() == 0) rank.kill_self();
    const auto error = error_of([&] { barrier(rank.group()); });
    EXPECT_EQ(error.kind(), ErrorKind::peer_lost);
    expect_words(error, {"barrier", "rank 0 (pid " + pid});
  });
}

TEST_P(Failures, ReasonOfTheRankThatGivesUpIsSeenByAll) {
  for (const auto rendezvous : {Rendezvous::file, Rendezvous::tcp}) {
    for (const int quitter : {0, 2}) {
      run(options(rendezvous), {}, [&](Rank& rank) {
        barrier(rank.group());
        auto tensor = at::ones({5});
        if (rank.rank() == quitter) {
          rank.group().abort("loss is NaN at step 3");
          expect_stays_failed(rank.group(), {"loss is NaN at step 3"});
          return;
        }
        const auto error = error_of([&] { all_reduce(tensor, rank.group()); });
        EXPECT_EQ(error.kind(), ErrorKind::peer_lost);
        expect_words(error, {"rank " + std::to_string(quitter) + " (pid", "loss is NaN at step 3"});
        expect_stays_failed(rank.group(), {"loss is NaN at step 3"});
      });
    }
  }
}

TEST_P(Failures, RanksWaitingInASubgroupHearOfIt) {
  const Notes heard;
  run(options(), {}, [&](Rank& rank) {
    const auto pair = rank.group().subgroup({1, 2});
    if (rank.rank() == 1) {
      std::this_thread::sleep_for(200ms);
      rank.group().abort("out of memory");
      expect_stays_failed(*pair, {"out of memory"});
      heard.wait_for(2);  // it is not its end that the others notice
    } else {
      const auto& group = pair ? *pair : rank.group();
      expect_words(error_of([&] { barrier(group); }), {"rank 1 (pid", "out of memory"});
      heard.leave(rank.rank());
    }
  });
}

TEST_P(Failures, RankThatDoesNotTakePartIsNamedAtTheTimeout) {
  auto slow = options();
  slow.group.timeout = 3s;
  const Notes heard;
  run(slow, {}, [&](Rank& rank) {
    barrier(rank.group());
    auto tensor = at::ones({5});
    if (rank.rank() == 1) heard.wait_for(2);
    const auto error = error_of([&] { all_reduce(tensor, rank.group()); });
    // All name rank 1 in the end, also the one that found it only when it failed itself.
    expect_words(error, {"all_reduce", "rank 1 (pid", "did not take part"});
    if (rank.rank() == 1) {
      EXPECT_EQ(error.kind(), ErrorKind::peer_lost);
    } else {
      heard.leave(rank.rank());
    }
  });
}

TEST_P(Failures, MessageOfAnotherLengthFailsBothSides) {
  const Notes notes;
  run(options(), {}, [&](Rank& rank) {
    barrier(rank.group());
    // It takes no part, and must not be the rank that the barrier of rank 0 misses.
    if (rank.rank() == 2) return notes.wait_for(2);
    auto tensor = at::ones({rank.rank() == 0 ? 4 : 5});
    const auto error = error_of([&] {
      if (rank.rank() == 0) {
        send(tensor, rank.group(), 1);
        barrier(rank.group());  // a small message may have gone before anybody looked at it
      } else {
        receive(tensor, rank.group(), 0);
      }
    });
    if (rank.rank() == 1) {
      EXPECT_EQ(error.kind(), ErrorKind::mismatch);
      expect_words(error, {"rank 0 sent 16 bytes with tag 0", " 20"});
    } else {
      expect_words(error, {"rank 1 "});
    }
    notes.leave(rank.rank());
  });
}

TEST(FailuresAcrossHosts, DeadRankIsNamedByItsAddress) {
  if (mpirun_size()) GTEST_SKIP() << "mpirun ends the whole job with the first rank";
  RankOptions options;
  options.rendezvous = Rendezvous::tcp;
  const auto outcomes = rank_outcomes(3, options, [](Rank& rank) {
    // Every rank on a "host" of its own, so that none can watch the process of another.
    ::setenv("LOCKSTEP_HOST_ID", std::to_string(rank.rank()).c_str(), 1);
    const auto pid = pid_of(rank, 2);
    if (rank.rank() == 2) rank.kill_self();
    auto tensor = at::ones({10});
    const auto error = error_of([&] { all_reduce(tensor, rank.group()); });
    EXPECT_EQ(error.kind(), ErrorKind::peer_lost);
    expect_words(error, {"rank 2 (pid " + pid});
  });
  EXPECT_TRUE(outcomes[0].ok()) << describe(outcomes[0]);
  EXPECT_TRUE(outcomes[1].ok()) << describe(outcomes[1]);
  EXPECT_EQ(outcomes[2].status.signal, SIGKILL);
}

TEST_P(Failures, RankThatLeftIsNamed) {
  run(options(), {}, [](Rank& rank) {
    barrier(rank.group());
    if (rank.rank() == 2) return;
    expect_words(error_of([&] { barrier(rank.group()); }), {"rank 2 (pid", "ended"});
  });
}

}  // namespace
}  // namespace lockstep::test
