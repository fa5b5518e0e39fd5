// How jobs end that are told to, or killed: what is saved, what is said, and that nothing is left.
#include "cli/two_nodes.h"
#include "cluster/probe.h"
#include "support/port.h"
#include "support/shared_memory.h"

#include <lockstep/base/text.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

/// Until `happens`, at most a minute.
template <typename Condition>
[[nodiscard]] bool wait_until(const Condition& happens) {
  for (const auto deadline = std::chrono::steady_clock::now() + 60s; std::chrono::steady_clock::now() < deadline;) {
    if (happens()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

Child start(const Words& words, const Environment& more = {}) {
  ChildOptions options;
  options.arguments = words;
  options.environment = environment_with(more);
  options.out = ChildStream::discard;
  options.err = ChildStream::pipe;
  return Child(options);
}

std::string rest_of(const UniqueFd& stream) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t count = 0; (count = ::read(stream.get(), buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return text;
}

/// A control group with so little memory, if this user may make one.
class SmallMemory {
 public:
  explicit SmallMemory(int mib) {
    // Version 2 has one line, which names no controller; a group of it may also lack the controller.
    std::istringstream lines(read_file("/proc/self/cgroup"));
    for (std::string line; std::getline(lines, line);) {
      const bool one = line.find(":memory:") != std::string::npos;
      if (!one && !line.starts_with("0::")) continue;
      const auto mount = one ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
      auto parent = mount + line.substr(line.rfind(':') + 1);
      if (!std::filesystem::exists(parent)) parent = mount;
      const auto folder = parent + fmt::format("/lockstep-test-{}", ::getpid());
      std::error_code refused;
      if (!std::filesystem::create_directory(folder, refused)) continue;
      folder_ = folder;
      const auto limit = folder + (one ? "/memory.limit_in_bytes" : "/memory.max");
      if (std::filesystem::exists(limit) && (std::ofstream(limit) << mib * (1 << 20)).flush()) return;
      std::filesystem::remove(std::exchange(folder_, {}), refused);
    }
  }
  SmallMemory(const SmallMemory&) = delete;
  SmallMemory& operator=(const SmallMemory&) = delete;
  ~SmallMemory() {
    // The kernel takes a moment to forget its processes.
    const bool gone = folder_.empty() || wait_until([&] { return ::rmdir(folder_.c_str()) == 0; });
    EXPECT_TRUE(gone) << folder_;
  }

  bool made() const { return !folder_.empty(); }
  /// That command in it.
  Words in(const Words& words) const {
    Words all = {"bash", "-c", "echo $$ > \"$0\"/cgroup.procs && exec \"$@\"", folder_};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }

 private:
  std::string folder_;
};

TEST(Endings, TheKernelsKillForLackOfMemoryIsNamed) {
  const SmallMemory group(600);
  if (!group.made()) GTEST_SKIP() << "this user may make no control group with a memory limit";
  const auto ran = run_program(group.in({LOCKSTEP_BINARY, "run", "--nproc-per-node", "2", "bash", "-c",
                                         "[ $RANK = 0 ] && exec sleep 100; exec tail /dev/zero"}));
  EXPECT_EQ(ran.status.code, 128 + SIGKILL) << ran.err;
  EXPECT_THAT(ran.err,
              ContainsRegex("reason: the kernel killed it for lack of memory \\(limit 600 MiB, peak [56][0-9]+ MiB"));
}

/// Whether a child of that process is stopped.
bool has_stopped_child(pid_t parent) {
  std::istringstream children(read_file(fmt::format("/proc/{0}/task/{0}/children", parent)));
  for (pid_t pid = 0; children >> pid;) {
    const auto stat = read_file(fmt::format("/proc/{}/stat", pid));
    if (stat.find(") T ") != std::string::npos) return true;
  }
  return false;
}

/// From the first line of a run.
std::uint16_t port_in(const std::string& log) {
  const std::string name = "MASTER_PORT=";
  const auto begin = log.find(name) + name.size();
  return static_cast<std::uint16_t>(
      parse_integer(log.substr(begin, log.find_first_not_of("0123456789", begin) - begin)).value());
}

nlohmann::json result_in(const std::filesystem::path& work_dir) {
  return nlohmann::json::parse(read_file(work_dir / "result.json"));
}

/// 40 pictures, 2 steps an epoch on 2 ranks.
const Words kLonger = {"train.epochs=20", "checkpoint.every_epochs=20", "train.eval_every=20"};

Words longer(const Workbench& bench, const std::string& work_dir) {
  Words words = kLonger;
  words.push_back("system.work_dir=" + (bench.path() / work_dir).string());
  return bench.train(std::move(words));
}

void expect_goes_on_as_if_nothing_had_been(const Workbench& bench, const std::string& work_dir) {
  EXPECT_FALSE(std::filesystem::exists(bench.path() / work_dir / "result.json"));
  for (const auto& name : {work_dir, std::string("undisturbed")}) {
    const auto ran = under_lockstep_run(2, longer(bench, name));
    ASSERT_TRUE(ran.status.ok()) << ran.err;
  }
  EXPECT_EQ(result_in(bench.path() / work_dir)["params_sha256"],
            result_in(bench.path() / "undisturbed")["params_sha256"]);
}

// ---- two runs in one folder

TEST(Endings, ARunInAFolderThatAnotherOneUsesIsRefusedUntilThatHasEnded) {
  const Workbench bench;
  const Words endless = bench.train({"train.epochs=100000", "callbacks.loss_every=0", "checkpoint.every_epochs=0"});
  const auto holds_lock = [&](const Child& run) {
    const auto pid = fmt::format("\"pid\":\"{}\"", run.pid());
    return wait_until([&] { return read_file(bench.work_dir() / "lock").find(pid) != std::string::npos; });
  };
  Child first = start(endless);
  ASSERT_TRUE(holds_lock(first));
  ASSERT_TRUE(wait_until([&] { return !read_file(bench.work_dir() / "metrics.jsonl").empty(); }));

  // A collective's time limit is also that of waiting for the lock.
  const auto second = under_lockstep_run(2, bench.train({"parallel.timeout_s=2"}));
  EXPECT_EQ(second.status, (ExitStatus{2, 0})) << second.err;
  EXPECT_THAT(second.out, HasSubstr("waiting up to "));
  EXPECT_THAT(second.err, AllOf(HasSubstr("another run uses the folder " + bench.work_dir().string()),
                                HasSubstr(fmt::format("process {} on host ", first.pid())), HasSubstr("since 20"),
                                HasSubstr("(system.work_dir=...)")));
  EXPECT_EQ(second.err.find("exit code 1"), std::string::npos) << "of all ranks it is 2: " << second.err;
  EXPECT_FALSE(std::filesystem::exists(bench.work_dir() / "result.json"));

  // However it dies, the lock goes with it.
  ::kill(first.pid(), SIGKILL);
  ASSERT_TRUE(first.wait_for(60s));
  Child third = start(endless);
  EXPECT_TRUE(holds_lock(third));
}

// The same checkpoints, whatever the other files.
TEST(Endings, ARunWithTheCheckpointFolderOfAnotherOneIsRefused) {
  const Workbench bench;
  const auto shared = bench.path() / "shared" / "checkpoints";
  const auto with_work_dir = [&](const std::string& name, Words more) {
    more.push_back("system.work_dir=" + (bench.path() / name).string());
    more.push_back("checkpoint.folder=" + shared.string());
    return bench.train(more);
  };
  Child first = start(with_work_dir("first", {"train.epochs=100000", "callbacks.loss_every=0"}));
  const auto pid = fmt::format("\"pid\":\"{}\"", first.pid());
  ASSERT_TRUE(wait_until([&] { return read_file(shared / "lock").find(pid) != std::string::npos; }));

  const auto second = under_lockstep_run(2, with_work_dir("second", {"parallel.timeout_s=2"}));
  EXPECT_EQ(second.status, (ExitStatus{2, 0})) << second.err;
  EXPECT_THAT(second.err,
              AllOf(HasSubstr("[checkpoint.folder] another run uses the folder " + shared.string()),
                    HasSubstr(fmt::format("process {} on host ", first.pid())), HasSubstr("(checkpoint.folder=...)")));

  ::kill(first.pid(), SIGKILL);
  ASSERT_TRUE(first.wait_for(60s));
  // One folder for both, by two names, is locked once.
  const auto both = (bench.path() / "second" / ".." / "both").string();
  const auto third =
      run_program(bench.train({"system.work_dir=" + (bench.path() / "both").string(), "checkpoint.folder=" + both}));
  EXPECT_TRUE(third.status.ok()) << third.err;
}

// ---- asked to end

TEST(Endings, ABatchSystemsSignalToTheLauncherSavesAndGoesOn) {
  const Workbench bench;
  Probe probe;
  Words words = longer(bench, "asked");
  words.insert(words.begin(), {LOCKSTEP_BINARY, "run", "--nproc-per-node", "2"});
  // Rank 0 stands still in step 9, so that the signal comes in the middle; the launcher wakes it with the signal.
  Child launcher = start(words, {{"LOCKSTEP_FAULT", "rank=0,step=9,action=stop"}});
  ASSERT_TRUE(wait_until([&] { return has_stopped_child(launcher.pid()); }));
  ::kill(launcher.pid(), SIGTERM);
  const auto said = rest_of(launcher.err());
  EXPECT_EQ(launcher.wait_for(60s), (ExitStatus{75, 0})) << said;
  EXPECT_TRUE(probe.nobody_left());
  EXPECT_THAT(said, AllOf(HasSubstr("ended by SIGTERM; 2 ranks ended"), HasSubstr("exit code 75"),
                          HasSubstr("SIGTERM ended the run early, after step 9")));
  expect_goes_on_as_if_nothing_had_been(bench, "asked");
}

TEST(Endings, ASignalToOneRankEndsAllOfThem) {
  const Workbench bench;
  const Environment one = {{"LOCKSTEP_FAULT", "rank=1,step=5,action=term"}};
  const auto run = under_lockstep_run(2, longer(bench, "run"), one);
  EXPECT_EQ(run.status, (ExitStatus{75, 0}));
  EXPECT_THAT(run.err, AllOf(ContainsRegex("rank [01] .* ended first"), HasSubstr("early, after step 5")));
  expect_goes_on_as_if_nothing_had_been(bench, "run");

  if (!LOCKSTEP_HAS_MPI) GTEST_SKIP() << "this build has no MPI: not tried under mpirun";
  const auto mpirun = under_mpirun(2, longer(bench, "mpirun"), one);
  EXPECT_EQ(mpirun.status, (ExitStatus{75, 0})) << mpirun.err;
  expect_goes_on_as_if_nothing_had_been(bench, "mpirun");
}

TEST(Endings, MpirunPassesOnTheUsersSignal) {
  if (!LOCKSTEP_HAS_MPI) GTEST_SKIP() << "this build has no MPI";
  if (run_program({LOCKSTEP_MPIRUN, "--version"}).out.find("Open") == std::string::npos) {
    GTEST_SKIP() << "this is not Open MPI";
  }
  const Workbench bench;
  Words words = {LOCKSTEP_MPIRUN, "-n", "2", "--oversubscribe", "--allow-run-as-root"};
  for (const auto& word : bench.train({"train.epochs=100000"})) words.push_back(word);
  Probe probe;
  Child mpirun = start(words);
  ASSERT_TRUE(wait_until([&] { return !read_file(bench.work_dir() / "metrics.jsonl").empty(); }));
  ::kill(mpirun.pid(), SIGUSR1);
  const auto said = rest_of(mpirun.err());
  EXPECT_EQ(mpirun.wait_for(60s), (ExitStatus{75, 0})) << said;
  EXPECT_TRUE(probe.nobody_left());
}

TEST(Endings, CtrlCAndAClosedTerminalSaveAndEnd) {
  for (const auto& [signal, code] : {std::pair(SIGINT, 130), std::pair(SIGHUP, 129)}) {
    const Workbench bench;
    Child alone = start(bench.train({"train.epochs=100000", "checkpoint.every_epochs=100000"}));
    ASSERT_TRUE(wait_until([&] { return !read_file(bench.work_dir() / "metrics.jsonl").empty(); }));
    ::kill(alone.pid(), signal);
    EXPECT_EQ(alone.wait_for(60s), (ExitStatus{code, 0})) << rest_of(alone.err());
    EXPECT_FALSE(std::filesystem::is_empty(bench.work_dir() / "checkpoints"));
  }
}

// ---- killed

TEST(Endings, AKilledRankIsReportedWithItsStepAndCollectiveAndLeavesNothing) {
  const Workbench bench;
  const auto before = shared_memory_names();
  for (const std::string rank : {"0", "1"}) {
    Probe probe;
    auto words = bench.train({"train.epochs=20", "system.work_dir=" + (bench.path() / rank).string()});
    words.insert(words.begin(), {"--max-restarts", "0"});  // else it would be replaced
    const auto ran = under_lockstep_run(2, words, {{"LOCKSTEP_FAULT", "rank=" + rank + ",step=5,action=kill"}});
    EXPECT_EQ(ran.status, (ExitStatus{137, 0}));
    EXPECT_THAT(ran.err, ContainsRegex("lockstep run: rank " + rank +
                                       " \\(pid [0-9]+ on .+\\) failed first, .* signal 9 \\(SIGKILL\\)\n  it had "
                                       "completed step 4 and had finished [a-z_]+ [0-9]+ of group \"world\"\n"));
    // The other had begun what the first never came to.
    EXPECT_THAT(ran.err, ContainsRegex("because it lost another rank; it had completed step 4 and was in [a-z_]+ "
                                       "[0-9]+ of group \"world\", which it began"));
    EXPECT_LE(lines_of(ran.err).size(), 24u) << "on one screen";
    EXPECT_TRUE(probe.nobody_left());
  }
  EXPECT_EQ(shared_memory_names(), before);
}

TEST(Endings, AKilledLauncherLeavesNeitherProcessNorPortNorSharedMemory) {
  const Workbench bench;
  const TemporaryFolder folder;  // takes what a killed launcher cannot remove
  const auto before = shared_memory_names();
  Probe probe;
  Words words = bench.train({"train.epochs=100000"});
  words.insert(words.begin(), {LOCKSTEP_BINARY, "run", "--nproc-per-node", "2"});
  Child launcher = start(words, {{"TMPDIR", folder.path().string()}});
  ASSERT_TRUE(wait_until([&] { return !read_file(bench.work_dir() / "metrics.jsonl").empty(); }));
  const auto port = port_in(read_file(bench.work_dir() / "log/rank.0"));
  EXPECT_FALSE(can_listen(port)) << "the store is there";
  ::kill(launcher.pid(), SIGKILL);
  EXPECT_EQ(launcher.wait_for(60s), (ExitStatus{0, SIGKILL}));
  EXPECT_TRUE(probe.nobody_left());
  // Another program's connection may have got the number in between; that goes again.
  EXPECT_TRUE(wait_until([&] { return can_listen(port); }));
  EXPECT_EQ(shared_memory_names(), before);
}

TEST(Endings, AHostThatVanishesEndsTheJobOnTheOther) {
  const TwoHosts hosts;
  if (!hosts.made()) GTEST_SKIP() << TwoHosts::kObstacle;
  const Workbench bench;
  const Words words = bench.train({"train.epochs=100000", "parallel.nodes=[{addr: 10.77.0.1}, {addr: 10.77.0.2}]",
                                   "parallel.ctrl_port=9988", "parallel.devices_per_node=2"});
  Probe probe;
  const Environment soon = {{"LOCKSTEP_HOST_TIMEOUT_S", "3"}, {"LOCKSTEP_START_TIMEOUT_S", "60"}};
  std::array<Child, 2> nodes = {start(TwoHosts::on(0, words), soon), start(TwoHosts::on(1, words), soon)};
  ASSERT_TRUE(wait_until([&] { return !read_file(bench.work_dir() / "metrics.jsonl").empty(); }));
  ASSERT_TRUE(TwoHosts::unplug());
  const auto said = rest_of(nodes[0].err());
  rest_of(nodes[1].err());
  for (auto& node : nodes) EXPECT_EQ(node.wait_for(60s), (ExitStatus{1, 0})) << said;
  EXPECT_THAT(said, ContainsRegex("rank [23] \\(pid [0-9]+ on "));
  EXPECT_LE(lines_of(said).size(), 24u) << "on one screen:\n" << said;
  EXPECT_TRUE(probe.nobody_left());
}

}  // namespace
}  // namespace lockstep::test
