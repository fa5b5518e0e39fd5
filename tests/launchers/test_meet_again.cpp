// Repeated rendezvous: several groups one after the other in one program, and several programs one after the other
// under one launcher, by each way in, with ranks that pause at random before they leave.
#include <lockstep/base/text.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "cli/two_nodes.h"
#include "support/port.h"
#include "support/thorough.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;

constexpr int kRendezvous = 4;

// How often each test repeats itself, with other pauses each time; more when the rendezvous itself is worked on.
int repetitions() {
  return static_cast<int>(
      parse_integer(find(current_environment(), "LOCKSTEP_TEST_REPEAT").value_or("")).value_or(thorough() ? 2 : 1));
}

std::string program(int number, int seed, const std::string& more = "") {
  return fmt::format("{} {} {} {}{}", LOCKSTEP_MEET_AGAIN, kRendezvous, seed, number, more);
}

/// One program, and two one after the other.
Words one(int seed) { return {"bash", "-c", program(1, seed)}; }
Words two(int seed) { return {"bash", "-c", program(1, seed) + " && " + program(2, seed + 100)}; }

std::string said_by_one() { return fmt::format("1 met {} times\n", kRendezvous); }
std::string said_by_two() { return said_by_one() + fmt::format("2 met {} times\n", kRendezvous); }

/// Runs the same words as each of several processes at once.
std::vector<Captured> together(const Words& words, const std::vector<Environment>& variables) {
  const TemporaryFolder folder;
  std::vector<std::future<Captured>> running;
  for (const auto& of_one : variables) {
    running.push_back(std::async(std::launch::async, [&] { return run_in(folder.path(), words, of_one); }));
  }
  std::vector<Captured> ended;
  for (auto& each : running) ended.push_back(each.get());
  return ended;
}

/// Ranks started by hand, rank 0 first, with `more` in each.
std::vector<Environment> ranks_by_hand(int size, const Environment& more) {
  std::vector<Environment> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(more);
    ranks.back().insert({{"RANK", std::to_string(rank)}, {"WORLD_SIZE", std::to_string(size)}});
  }
  return ranks;
}

/// Each line is said by rank 0, which may be another process in the next program.
void expect_said(const std::vector<Captured>& ended, const std::string& by_all) {
  std::string out;
  std::string err;
  bool well = true;
  for (const auto& each : ended) {
    out += each.out;
    err += each.err;
    well = well && each.status.ok();
  }
  EXPECT_TRUE(well) << out << err;
  auto lines = lines_of(out);
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(lines, lines_of(by_all)) << err;
}

/// Runs a way in with two programs, thoroughly with one as well, again and again. `way` is given the words of a rank.
void repeat(const std::function<std::vector<Captured>(const Words&)>& way) {
  for (int time = 0; time < repetitions() && !testing::Test::HasFailure(); ++time) {
    SCOPED_TRACE(fmt::format("repetition {}", time));
    if (thorough()) expect_said(way(one(10 * time + 1)), said_by_one());
    expect_said(way(two(10 * time + 2)), said_by_two());
  }
}

std::vector<Captured> under_run(const Words& flags, const Words& words, const Environment& more = {}) {
  Words command = {"lockstep", "run", "--no-prefix"};
  command.insert(command.end(), flags.begin(), flags.end());
  command.insert(command.end(), words.begin(), words.end());
  return together(command, {more});
}

TEST(MeetAgain, UnderLockstepRun) {
  for (const auto* backend : {"shm", "tcp"}) {
    SCOPED_TRACE(backend);
    repeat([&](const Words& words) {
      return under_run({"--nproc-per-node", "2"}, words, {{"LOCKSTEP_BACKEND", backend}});
    });
  }
}

TEST(MeetAgain, UnderLockstepRunWithoutAShell) {
  for (int time = 0; time < repetitions(); ++time) {
    const Words words = {LOCKSTEP_MEET_AGAIN, std::to_string(kRendezvous), std::to_string(time), "1"};
    expect_said(under_run({"--nproc-per-node", "3"}, words), said_by_one());
  }
}

TEST(MeetAgain, ThoroughUnderLockstepRunByC10d) {
  repeat([](const Words& words) {
    return under_run({"--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:" + free_port()},
                     words);
  });
}

/// The ranks of each of two launchers, as on two nodes.
TEST(MeetAgain, UnderTwoLaunchers) {
  repeat([](const Words& words) {
    const std::string launcher =
        "lockstep run --no-prefix --nproc-per-node 1 --nnodes 2 --node-rank $NODE --master-addr "
        "127.0.0.1 --master-port " +
        free_port() + " \"$@\"";
    Words command = {"bash", "-c", launcher, "launcher"};
    command.insert(command.end(), words.begin(), words.end());
    return together(command, {{{"NODE", "0"}}, {{"NODE", "1"}}});
  });
}

// Each attempt of the launcher begins to count anew. Rank 1 fails between the two programs, the first time.
TEST(MeetAgain, AfterARestart) {
  for (int time = 0; time < repetitions(); ++time) {
    const std::string between = "[ $TORCHELASTIC_RESTART_COUNT$RANK != 01 ]";
    const Words words = {"bash", "-c", program(1, time) + " && " + between + " && " + program(2, time + 100)};
    const auto ended = under_run({"--nproc-per-node", "2", "--max-restarts", "1"}, words);
    expect_said(ended, said_by_one() + said_by_two());
  }
}

// What the doctor asked belongs to it alone.
TEST(MeetAgain, ThoroughAfterTheDoctor) {
  const Words words = {"bash", "-c",
                       "lockstep doctor > /dev/null && lockstep doctor > /dev/null && " + program(1, 1) +
                           " && lockstep doctor > /dev/null && " + program(2, 2)};
  expect_said(under_run({"--nproc-per-node", "2"}, words), said_by_two());
  const Environment master = {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", free_port()}};
  expect_said(together(words, ranks_by_hand(2, master)), said_by_two());
}

/// What torchrun shows of its ranks, without its prefix.
void take_off_prefix(Captured& ended) {
  std::string lines;
  for (const auto& line : lines_of(ended.out)) lines += line.substr(line.find(':') + 1) + "\n";
  ended.out = lines;
}

/// The store is torchrun's, or, without a rendezvous of its own, rank 0's.
TEST(MeetAgain, UnderTorchrun) {
  for (const bool standalone : {false, true}) {
    if (standalone && !thorough()) continue;
    SCOPED_TRACE(standalone);
    repeat([&](const Words& words) {
      // Without -r and -t, that of libtorch 1.13 fails on Python 3.11.
      const TemporaryFolder logs;
      Words command = {LOCKSTEP_PYTHON, "-m",        "torch.distributed.run", "-r", "1", "-t", "1",
                       "--log_dir",     logs.path(), "--nproc_per_node",      "2"};
      if (standalone) command.emplace_back("--standalone");
      if (!standalone) command.insert(command.end(), {"--master_port", free_port()});
      command.emplace_back("--no_python");
      command.insert(command.end(), words.begin(), words.end());
      auto ended = together(command, {{}});
      take_off_prefix(ended.front());
      return ended;
    });
  }
}

TEST(MeetAgain, AtAnAddress) {
  for (const int size : {3, 2}) {
    if (size == 2 && !thorough()) continue;
    repeat([&](const Words& words) {
      return together(words, ranks_by_hand(size, {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", free_port()}}));
    });
  }
}

TEST(MeetAgain, OnTwoHostsAtAnAddress) {
  repeat([](const Words& words) {
    auto ranks = ranks_by_hand(3, {{"LOCKSTEP_INIT_METHOD", "tcp://127.0.0.1:" + free_port()}});
    ranks[0].insert({"LOCKSTEP_HOST_ID", "first"});
    return together(words, ranks);
  });
}

TEST(MeetAgain, InAFile) {
  repeat([](const Words& words) {
    const TemporaryFolder folder;
    const auto file = folder.path() / "meet";
    auto ended = together(words, ranks_by_hand(2, {{"LOCKSTEP_INIT_METHOD", "file://" + file.string()}}));
    EXPECT_FALSE(std::filesystem::exists(file));
    return ended;
  });
}

TEST(MeetAgain, ByARankTable) {
  repeat([](const Words& words) {
    const TemporaryFolder folder;
    const auto made =
        run_in(folder.path(), {"lockstep", "rank-table", "--device_num", "[0,2)", "--server_ip", "127.0.0.1"});
    EXPECT_TRUE(made.status.ok()) << made.err;
    const auto table = std::filesystem::directory_iterator(folder.path())->path().string();
    std::vector<Environment> ranks;
    const auto port = free_port();
    for (const auto* rank : {"0", "1"}) {
      ranks.push_back({{"RANK_TABLE_FILE", table},
                       {"RANK_SIZE", "2"},
                       {"RANK_ID", rank},
                       {"DEVICE_ID", rank},
                       {"MASTER_PORT", port}});
    }
    return together(words, ranks);
  });
}

TEST(MeetAgain, ByAListOfNodes) {
  for (int time = 0; time < repetitions(); ++time) {
    const auto nodes = " nodes " + free_port() + " 127.0.0.2 127.0.0.3";
    const Words words = {"bash", "-c", program(1, time, nodes) + " && " + program(2, time + 100, nodes)};
    const auto variables = loopback_nodes();
    expect_said(together(words, {variables[0], variables[1]}), said_by_two());
  }
}

TEST(MeetAgain, AsRanksThatWereSpawned) {
  for (int time = 0; time < repetitions(); ++time) {
    expect_said(together({"bash", "-c", program(1, time, " spawn 3")}, {{}}), said_by_one());
  }
}

TEST(MeetAgain, UnderMpirun) {
  if (!LOCKSTEP_HAS_MPI) GTEST_SKIP() << "this build has no MPI";
  for (const auto* backend : {"auto", "tcp", "mpi"}) {
    SCOPED_TRACE(backend);
    for (int time = 0; time < repetitions(); ++time) {
      const Words words = {LOCKSTEP_MEET_AGAIN, std::to_string(kRendezvous), std::to_string(time), "1"};
      expect_said({under_mpirun(2, words, {{"LOCKSTEP_BACKEND", backend}})}, said_by_one());
    }
  }
}

// Open MPI starts one MPI program for each process of mpirun, and ends the second itself.
TEST(MeetAgain, ThoroughTwoProgramsUnderMpirun) {
  if (!LOCKSTEP_HAS_MPI) GTEST_SKIP() << "this build has no MPI";
  if (run_program({LOCKSTEP_MPIRUN, "--version"}).out.find("Open") == std::string::npos) GTEST_SKIP() << "no Open MPI";
  const auto ended = under_mpirun(2, two(1));
  EXPECT_FALSE(ended.status.ok());
  EXPECT_EQ(ended.out, said_by_one());
  EXPECT_THAT(ended.err, HasSubstr("MPI_Init_thread ended this process"));
  EXPECT_THAT(ended.err, HasSubstr("Start each program with an mpirun of its own"));
  // Who meets at an address starts no MPI.
  for (int time = 0; time < repetitions(); ++time) {
    const Environment place = {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", free_port()}};
    expect_said({under_mpirun(2, two(time), place)}, said_by_two());
  }
}

/// A scheduler serves one job: each of the two programs has its own, at the same address.
TEST(MeetAgain, WithASchedulerForEach) {
  for (int time = 0; time < repetitions(); ++time) {
    const Environment job = {{"MS_WORKER_NUM", "2"}, {"MS_SCHED_HOST", "127.0.0.1"}, {"MS_SCHED_PORT", free_port()}};
    const std::string once = fmt::format("{} 1 {} ", LOCKSTEP_MEET_AGAIN, time);
    const auto worker = [&](const std::string& name) {
      Environment variables = job;
      variables.insert({{"MS_ROLE", "MS_WORKER"}, {"COMMAND", once + "1 && " + once + "2"}});
      if (!name.empty()) variables.insert({"MS_NODE_ID", name});
      return variables;
    };
    for (const bool named : {true, false}) {
      SCOPED_TRACE(named);
      Environment scheduler = job;
      scheduler.insert({{"MS_ROLE", "MS_SCHED"},
                        {"COMMAND", "lockstep scheduler > /dev/null 2>&1 && lockstep scheduler > /dev/null 2>&1"}});
      const auto ended = together({"bash", "-c", "eval \"$COMMAND\""},
                                  {scheduler, worker(named ? "a" : ""), worker(named ? "b" : "")});
      expect_said(ended, "1 met 1 times\n2 met 1 times\n");
    }
  }
}

}  // namespace
}  // namespace lockstep::test
