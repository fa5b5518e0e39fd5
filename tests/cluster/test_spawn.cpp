// A function in several processes: who runs it, what reaches the parent, and that nothing is left.
#include <lockstep/base/error.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/cluster/spawn.h>
#include <lockstep/world/world.h>

#include "base/expect_error.h"
#include "support/forks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr auto kLong = 180s;

// What children tell each other and the parent: memory that forks share.
struct Shared {
  std::array<std::atomic<int>, 8> value{};
};

class SharedMemory {
 public:
  SharedMemory() : place_(::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() { ::munmap(place_, sizeof(Shared)); }
  std::atomic<int>& operator[](std::size_t i) const { return static_cast<Shared*>(place_)->value.at(i); }

 private:
  void* place_;
};

void wait_for(const std::atomic<int>& value, int wanted) {
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (value != wanted && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
}

void sleep_long() { std::this_thread::sleep_for(kLong); }

bool gone(pid_t pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; }

Error error_of_spawn(const std::function<void(int)>& fn, int nprocs, const SpawnOptions& options = {}) {
  try {
    spawn(fn, nprocs, options);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return {ErrorKind::invalid_argument, "test", "none"};
}

class Spawn : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer's own thread runs in this process, and spawn refuses where other threads run";
#endif
  }
};

TEST_F(Spawn, RunsTheFunctionOnceForEachIndexInAProcessOfItsOwn) {
  const SharedMemory pids;
  const int captured = 7;
  int changed = 0;
  spawn(
      [&](int index) {
        if (pids[static_cast<std::size_t>(index)].exchange(::getpid()) != 0) throw std::logic_error("twice");
        changed = captured;
      },
      3);
  EXPECT_EQ(changed, 0) << "what a child changes stays in the child";
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NE(pids[i], 0);
    EXPECT_NE(pids[i], ::getpid());
    EXPECT_NE(pids[i], pids[(i + 1) % 3]);
    EXPECT_TRUE(gone(pids[i]));
  }
  EXPECT_EQ(pids[3], 0);
}

TEST_F(Spawn, TheFirstFailureEndsTheOthersAndItsMessageReachesTheParent) {
  const SharedMemory pids;
  const auto error = error_of_spawn(
      [&](int index) {
        pids[static_cast<std::size_t>(index)] = ::getpid();
        if (index == 1) throw std::runtime_error("no more \"luck\"\nin line 2");
        sleep_long();
      },
      3);
  EXPECT_EQ(error.kind(), ErrorKind::peer_lost);
  EXPECT_EQ(error.message(),
            "process 1 of 3 (pid " + std::to_string(pids[1]) + ") failed: no more \"luck\"\nin line 2");
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(pids[i] == 0 || gone(pids[i]));
}

TEST_F(Spawn, AnErrorKeepsItsKindAndIsToldBeforeWhatItCaused) {
  const SharedMemory flags;
  const auto error = error_of_spawn(
      [&](int index) {
        if (index == 0) {
          wait_for(flags[0], 1);
          fail(ErrorKind::peer_lost, "all_reduce", "rank 1 is gone");
        }
        flags[0] = 1;
        std::this_thread::sleep_for(20ms);  // the consequence comes first
        fail(ErrorKind::data, "loader", "picture {} is black", 4);
      },
      2);
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("[spawn] process 1 of 2"), HasSubstr("[loader] picture 4 is black")));
}

TEST_F(Spawn, CodesSignalsAndOtherExceptionsAreReasonsToo) {
  const auto code = error_of_spawn([](int) { ::_exit(3); }, 1);
  EXPECT_THAT(code.what(),
              AllOf(HasSubstr("process 0 of 1 (pid "), HasSubstr("ended with exit code 3 and reported no")));
  const auto signal = error_of_spawn([](int) { ::raise(SIGKILL); }, 1);
  EXPECT_EQ(signal.kind(), ErrorKind::peer_lost);
  EXPECT_THAT(signal.what(), HasSubstr("signal 9 (SIGKILL)"));
  const auto thrown = error_of_spawn([](int) { throw 5; }, 1);
  EXPECT_THAT(thrown.what(), HasSubstr("an exception that is no std::exception"));
}

TEST_F(Spawn, WhoDoesNotHeedTheRequestToEndIsKilledAfterTheGracePeriod) {
  const SharedMemory flags;
  SpawnOptions options;
  options.grace = 100ms;
  const auto error = error_of_spawn(
      [&](int index) {
        if (index == 1) {
          ::signal(SIGTERM, SIG_IGN);
          flags[0] = ::getpid();
          while (true) sleep_long();
        }
        while (flags[0] == 0) std::this_thread::sleep_for(1ms);
        throw std::runtime_error("done with it");
      },
      2, options);
  EXPECT_THAT(error.what(), HasSubstr("process 0 of 2"));
  EXPECT_TRUE(gone(flags[0]));
}

TEST_F(Spawn, WhatAChildStartedEndsWithIt) {
  const SharedMemory pids;
  spawn(
      [&](int) {
        const pid_t pid = ::fork();
        if (pid == 0) {
          while (true) sleep_long();
        }
        pids[0] = pid;
      },
      1);
  // The grandchild is init's to reap, so its number may be there a moment longer.
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (!gone(pids[0]) && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(gone(pids[0]));
}

TEST_F(Spawn, AHandleIsJoinedWithALimit) {
  const SharedMemory flags;
  auto processes = start_processes([&](int) { wait_for(flags[0], 1); }, 2);
  ASSERT_EQ(processes.pids().size(), 2u);
  EXPECT_FALSE(processes.join(20ms));
  for (const pid_t pid : processes.pids()) EXPECT_FALSE(gone(pid));
  flags[0] = 1;
  EXPECT_TRUE(processes.join(kLong));
  EXPECT_TRUE(processes.join(0ms));
  for (const pid_t pid : processes.pids()) EXPECT_TRUE(gone(pid));
}

TEST_F(Spawn, AHandleThatIsDroppedEndsItsProcesses) {
  std::vector<pid_t> pids;
  {
    const auto processes = start_processes([](int) { sleep_long(); }, 2);
    pids = processes.pids();
  }
  for (const pid_t pid : pids) EXPECT_TRUE(gone(pid));
}

TEST_F(Spawn, ChildrenAndTheirsDieWithTheParent) {
  const SharedMemory pids;
  const auto outcomes = test::fork_outcomes(1, {}, [&](int) {
    const auto processes = start_processes(
        [&](int index) {
          if (index == 0) {
            const pid_t pid = ::fork();
            if (pid == 0) {
              while (true) sleep_long();
            }
            pids[2] = pid;
          }
          pids[static_cast<std::size_t>(index)] = ::getpid();
          sleep_long();
        },
        2);
    while (pids[0] == 0 || pids[1] == 0) std::this_thread::sleep_for(1ms);
    ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(outcomes[0].status.signal, SIGKILL);
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  for (std::size_t i = 0; i < 3; ++i) {
    while (!gone(pids[i]) && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(gone(pids[i])) << i;
  }
}

TEST_F(Spawn, ASignalIsPassedOnAndThenTakesEffectHere) {
  const SharedMemory flags;
  const TemporaryFolder folder;
  const auto outcomes = test::fork_outcomes(1, {}, [&](int) {
    ::setenv("TMPDIR", folder.path().c_str(), 1);
    spawn(
        [&](int index) {
          sigset_t term;
          ::sigemptyset(&term);
          ::sigaddset(&term, SIGTERM);
          ::sigprocmask(SIG_BLOCK, &term, nullptr);
          flags[static_cast<std::size_t>(index)] = 1;
          if (index == 0) {
            wait_for(flags[1], 1);
            std::this_thread::sleep_for(1s);  // until spawn waits for them
            ::kill(::getppid(), SIGTERM);
          }
          int signal = 0;
          ::sigwait(&term, &signal);
          flags[static_cast<std::size_t>(index)] = 2;
        },
        2);
    flags[2] = 1;
  });
  EXPECT_EQ(outcomes[0].status.signal, SIGTERM) << describe(outcomes[0]);
  EXPECT_EQ(flags[0], 2);
  EXPECT_EQ(flags[1], 2);
  EXPECT_EQ(flags[2], 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST_F(Spawn, IsRefusedWhereOtherThreadsRun) {
  std::mutex mutex;
  std::condition_variable ended;
  bool end = false;
  std::thread other([&] {
    ::pthread_setname_np(::pthread_self(), "busy-bee");
    std::unique_lock lock(mutex);
    ended.wait(lock, [&] { return end; });
  });
  const auto refused = error_of_spawn([](int) {}, 1);
  {
    const std::lock_guard lock(mutex);
    end = true;
  }
  ended.notify_all();
  other.join();
  EXPECT_EQ(refused.kind(), ErrorKind::unsupported);
  EXPECT_THAT(refused.what(), AllOf(HasSubstr("1 other thread ("), HasSubstr("call spawn early in main")));
  spawn([](int) {}, 1);
}

// ---- who the children are

std::string world_of_child(int index, int nprocs, const SpawnOptions& options) {
  const auto error = error_of_spawn(
      [&](int i) {
        if (i == index) throw std::runtime_error(describe(detect_world(current_environment())));
      },
      nprocs, options);
  return error.what();
}

TEST_F(Spawn, ChildrenAreTheRanksOfAWorldOfTheirOwn) {
  EXPECT_THAT(world_of_child(1, 3, {}),
              AllOf(HasSubstr("rank 1 of 3 (local 1 of 3)"), HasSubstr("LOCKSTEP_INIT_METHOD=file:///")));
  EXPECT_THAT(world_of_child(0, 1, {}), HasSubstr("rank 0 of 1 (local 0 of 1)"));
}

TEST_F(Spawn, ChildrenOfSeveralNodesAreCountedOn) {
  SpawnOptions options;
  options.nodes = 2;
  options.node_rank = 1;
  options.init_method = "tcp://node0:6060";
  EXPECT_THAT(world_of_child(1, 4, options),
              AllOf(HasSubstr("rank 5 of 8 (local 1 of 4)"), HasSubstr("LOCKSTEP_INIT_METHOD=tcp://node0:6060")));
}

TEST_F(Spawn, ALauncherAroundTheParentIsNotTheChildrens) {
  const test::ForkOptions launched = {.environment = {{"RANK", "0"},
                                                      {"WORLD_SIZE", "1"},
                                                      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                                      {"LOCKSTEP_INIT_METHOD", "tcp://elsewhere:1"}}};
  test::fork_ranks(1, launched, [](int) {
    EXPECT_THAT(world_of_child(1, 2, {}), AllOf(HasSubstr("rank 1 of 2 (local 1 of 2)"), Not(HasSubstr("elsewhere"))));
    EXPECT_STREQ(std::getenv("WORLD_SIZE"), "1");
  });
}

TEST_F(Spawn, NumbersAreChecked) {
  const auto refuse = [](int nprocs, const SpawnOptions& options, std::string_view words) {
    const auto error = error_of_spawn([](int) {}, nprocs, options);
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    test::expect_words(error.what(), {words});
  };
  refuse(0, {}, "nprocs is 0");
  refuse(1, {.nodes = 0}, "nodes is 0");
  refuse(1, {.init_method = "tcp://h:1", .nodes = 2, .node_rank = 2}, "node_rank 2 must be from 0 to 1");
  refuse(1, {.nodes = 2}, "2 nodes need an init_method");
  EXPECT_EQ(error_of_spawn(nullptr, 1).kind(), ErrorKind::invalid_argument);
}

SpawnArguments parsed(std::vector<const char*> words) {
  words.insert(words.begin(), "program");
  return spawn_arguments(static_cast<int>(words.size()), words.data());
}

TEST(SpawnArguments, AreThoseOfPyTorchsExample) {
  const auto arguments = parsed({"--init_method", "tcp://10.0.0.1:6060", "--rank=1", "--world-size", "2", "--nprocs",
                                 "8", "--data_url=s3://bucket", "file"});
  EXPECT_EQ(arguments.nprocs, 8);
  EXPECT_EQ(arguments.options.nodes, 2);
  EXPECT_EQ(arguments.options.node_rank, 1);
  EXPECT_EQ(arguments.options.init_method, "tcp://10.0.0.1:6060");
  EXPECT_EQ(arguments.rest, (std::vector<std::string>{"--data_url=s3://bucket", "file"}));
  EXPECT_EQ(parsed({}).nprocs, 1);
}

TEST(SpawnArguments, NameWhatIsWrong) {
  const auto refused = [](std::vector<const char*> words, std::initializer_list<std::string_view> text) {
    test::expect_error(ErrorKind::invalid_argument, text, [&] { parsed(words); });
  };
  refused({"--nprocs"}, {"--nprocs is the last argument"});
  refused({"--nprocs", "2x"}, {"--nprocs", "from 1", "2x"});
  refused({"--rank", "-1"}, {"--rank", "from 0"});
  refused({"--world_size", "2", "--rank", "2", "--init_method", "tcp://h:1"}, {"--rank 2", "not below --world_size 2"});
  refused({"--world_size", "2"}, {"--init_method"});
}

}  // namespace
}  // namespace lockstep
