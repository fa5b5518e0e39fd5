// How ranks come to share memory, and what is left of it afterwards.
#include <lockstep/base/error.h>
#include <lockstep/comm/shm/collective.h>

#include <gtest/gtest.h>

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "comm/shm/process_ranks.h"
#include "support/shared_memory.h"

namespace lockstep::shm::test {
namespace {

using lockstep::test::fork_outcomes;
using lockstep::test::fork_ranks;
using std::chrono::milliseconds;

Deadline in(milliseconds time) { return std::chrono::steady_clock::now() + time; }

template <typename Call>
Error error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorKind::invalid_argument, "test", "no error");
}

std::size_t count_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

// Sockets of ours in this network namespace.
std::size_t sockets() {
  std::ifstream table("/proc/net/unix");
  std::size_t count = 0;
  for (std::string line; std::getline(table, line);) count += line.find("@lockstep-") != std::string::npos ? 1 : 0;
  return count;
}

TEST(Rendezvous, RanksShareMemoryAndNothingHasAName) {
  const auto before = lockstep::test::shared_memory_names();
  run_processes(4, {}, [&](ProcessRank& self) {
    std::int32_t sum = 1 << self.rank();
    auto* const bytes = reinterpret_cast<std::byte*>(&sum);
    ThreadRank rank = self.as_thread_rank();
    rank.run(Kind::all_reduce, DType::int32, ReduceOp::sum, -1, bytes, bytes, 1);
    EXPECT_EQ(sum, 15);
    EXPECT_EQ(lockstep::test::shared_memory_names(), before);
    EXPECT_EQ(sockets(), 0U);
  });
}

TEST(Rendezvous, KeepsOneDescriptorForEachOtherRankAndOneForMemory) {
  const Invitations invitations;
  fork_ranks(3, {}, [&](int rank) {
    const auto before = count_descriptors();
    ProcessRank self(invitations, {.ranks = 3}, rank);
    EXPECT_EQ(count_descriptors(), before + 3);
    ThreadRank as_thread = self.as_thread_rank();
    as_thread.run(Kind::barrier, DType::other, ReduceOp::sum, -1, nullptr, nullptr, 0);
  });
}

TEST(Rendezvous, NamesTheRanksThatDidNotCome) {
  const Invitations invitations;
  fork_ranks(2, {}, [&](int rank) {
    const auto error = error_of([&] {
      if (rank == 1) {
        join(invitations.receive(), 1, 4, in(std::chrono::seconds(60)));
      } else {
        Host host({.ranks = 4});
        invitations.send(host.invitation(), 1);
        host.gather(in(std::chrono::seconds(2)));
      }
    });
    EXPECT_EQ(error.kind(), ErrorKind::timeout);
    EXPECT_TRUE(mentions(error, "ranks 2, 3 did not connect in time")) << error.what();
  });
}

TEST(Rendezvous, LetsNobodyInWhoDoesNotKnowTheSecretOrDoesNotFit) {
  const Invitations invitations;
  fork_ranks(2, {}, [&](int rank) {
    if (rank == 0) {
      Host host({.ranks = 2});
      invitations.send(host.invitation(), 1);
      EXPECT_EQ(host.gather(in(std::chrono::seconds(60))).lifelines.size(), 2U);
      return;
    }
    const std::string invitation = invitations.receive();
    std::string forged = invitation;
    forged.back() = forged.back() == '0' ? '1' : '0';
    EXPECT_EQ(error_of([&] { join(forged, 1, 2, in(std::chrono::seconds(60))); }).kind(), ErrorKind::peer_lost);
    EXPECT_EQ(error_of([&] { join(invitation, 1, 3, in(std::chrono::seconds(60))); }).kind(), ErrorKind::peer_lost);
    EXPECT_EQ(error_of([&] { join(invitation, 2, 2, in(std::chrono::seconds(60))); }).kind(), ErrorKind::peer_lost);
    EXPECT_EQ(error_of([&] { join("nonsense", 1, 2, in(std::chrono::seconds(60))); }).kind(),
              ErrorKind::invalid_argument);
    {
      // Who connects and says something else, or nothing, holds nobody up.
      const UniqueFd silent = connect_to(invitation.substr(0, invitation.find(' ')));
      send_packet(silent.get(), std::as_bytes(std::span("hello")), {});
    }
    EXPECT_EQ(join(invitation, 1, 2, in(std::chrono::seconds(60))).lifelines.size(), 2U);
  });
}

TEST(Rendezvous, ARankOfAnotherUserIsTheReason) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can run a rank as another user";
  const Invitations invitations;
  const Pipe tried = make_pipe();
  fork_ranks(2, {}, [&](int rank) {
    if (rank == 0) {
      Host host({.ranks = 2});
      invitations.send(host.invitation(), 1);
      char word = 0;
      EXPECT_EQ(::read(tried.read_end.get(), &word, 1), 1);
      const auto told = error_of([&] { host.gather(in(milliseconds(0))); });
      EXPECT_TRUE(mentions(told, "a process of user 65534 was refused")) << told.what();
      return;
    }
    const std::string invitation = invitations.receive();
    EXPECT_EQ(::seteuid(65534), 0);
    const auto error = error_of([&] { join(invitation, 1, 2, in(std::chrono::seconds(60))); });
    EXPECT_EQ(::seteuid(0), 0);
    EXPECT_EQ(::write(tried.write_end.get(), "x", 1), 1);
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    EXPECT_TRUE(mentions(error, "the user with number 0, and this rank is one of user 65534")) << error.what();
  });
}

TEST(Rendezvous, NoticesARankThatDiesWhileTheGroupIsMade) {
  const Invitations invitations;
  const auto outcomes = fork_outcomes(3, {}, [&](int rank) {
    if (rank == 0) {
      Host host({.ranks = 3});
      invitations.send(host.invitation(), 2);
      const auto error = error_of([&] { host.gather(in(std::chrono::seconds(60))); });
      EXPECT_EQ(error.kind(), ErrorKind::peer_lost) << error.what();
    } else if (rank == 1) {
      const auto error = error_of([&] { join(invitations.receive(), 1, 3, in(std::chrono::seconds(60))); });
      EXPECT_NE(error.kind(), ErrorKind::invalid_argument) << error.what();
    } else {
      // Comes, and is gone before it could say that it is ready: a hello and then the end.
      const std::string invitation = invitations.receive();
      std::thread killer([] {
        std::this_thread::sleep_for(milliseconds(50));
        ::kill(::getpid(), SIGKILL);
      });
      const UniqueFd socket = connect_to(invitation.substr(0, invitation.find(' ')));
      struct {
        char secret[32];
        std::int32_t rank = 2;
        std::int32_t ranks = 3;
        std::uint64_t cpus[sizeof(cpu_set_t) / 8] = {};
      } hello;
      std::memcpy(hello.secret, invitation.data() + invitation.find(' ') + 1, 32);
      const Pipe pipe = make_pipe();
      const int lifeline = pipe.read_end.get();
      send_packet(socket.get(), std::as_bytes(std::span(&hello, 1)), std::span(&lifeline, 1));
      killer.join();
    }
  });
  EXPECT_TRUE(outcomes[0].ok()) << describe(outcomes[0]);
  EXPECT_TRUE(outcomes[1].ok()) << describe(outcomes[1]);
  EXPECT_EQ(outcomes[2].status.signal, SIGKILL);
}

TEST(Rendezvous, RefusesMoreRanksThanItCanHold) {
  const auto error = error_of([] { Host host({.ranks = 513}); });
  EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  EXPECT_TRUE(mentions(error, "at most 512 ranks, not 513")) << error.what();
}

// --- memory that grows -----------------------------------------------------------------------------------------------

TEST(Blocks, AreSharedUntilTheyAreGivenBack) {
  run_processes(3, {}, [](ProcessRank& self) {
    ThreadRank rank = self.as_thread_rank();
    for (const std::size_t bytes : {1UL, 4096UL, 4097UL, 3UL << 20}) {
      auto made = self.arena().make(bytes);
      ASSERT_EQ(made.error, 0);
      std::byte* const part = made.block->part();
      for (const std::size_t at : {0UL, bytes - 1}) ASSERT_EQ(part[at], std::byte{0});
      made.block->open();
      std::memset(part, self.rank() + 1, bytes);
      const std::size_t count = bytes / 4 * 4 == bytes ? bytes / 4 : 0;
      rank.run(Kind::all_reduce, DType::int32, ReduceOp::max, -1, part, part, count);
      if (count > 0) {
        ASSERT_EQ(part[0], std::byte{3});
      }
      rank.run(Kind::barrier, DType::other, ReduceOp::sum, -1, nullptr, nullptr, 0);
      made.block.reset();
      ASSERT_EQ(rank.blocks.find(part, 1).block, 0U);
    }
  });
}

TEST(Blocks, GiveTheirMemoryBackToTheSystem) {
  run_processes(2, {}, [](ProcessRank& self) {
    // What the file takes, by rank 0's own count of blocks on "disk".
    const auto held_by_file = [] {
      for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        if (std::filesystem::read_symlink(entry.path(), gone).string().find("lockstep-blocks") == std::string::npos)
          continue;
        struct stat info {};
        if (::stat(entry.path().c_str(), &info) == 0) return static_cast<std::size_t>(info.st_blocks) * 512;
      }
      return std::size_t{0};
    };
    ThreadRank rank = self.as_thread_rank();
    const auto barrier = [&] { rank.run(Kind::barrier, DType::other, ReduceOp::sum, -1, nullptr, nullptr, 0); };
    {
      auto made = self.arena().make(4 << 20);
      ASSERT_EQ(made.error, 0);
      barrier();
      EXPECT_EQ(held_by_file(), 8U << 20);
      barrier();
    }
    barrier();
    EXPECT_EQ(held_by_file(), 0U);
    barrier();
  });
}

}  // namespace
}  // namespace lockstep::shm::test
