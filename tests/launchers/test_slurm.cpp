// Jobs under a real Slurm: srun, sbatch, two nodes.
#include <lockstep/world/detect.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>

#include <fcntl.h>
#include <algorithm>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <thread>

#include "cli/two_nodes.h"
#include "launchers/slurm_cluster.h"
#include "support/port.h"

namespace lockstep::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;

const std::string kAllgather = LOCKSTEP_EXAMPLES "/allgather";
const std::string kProbe = LOCKSTEP_TEST_WORLD_PROBE;
constexpr std::chrono::seconds kLimit(60);

// One cluster of two nodes for all tests.
class Slurm : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    obstacle_ = SlurmCluster::obstacle();
    if (!obstacle_) cluster_ = std::make_unique<SlurmCluster>(2);
  }
  static void TearDownTestSuite() { cluster_.reset(); }
  void SetUp() override {
    if (obstacle_) GTEST_SKIP() << *obstacle_;
  }
  static const SlurmCluster& slurm() { return *cluster_; }

 private:
  static inline std::optional<std::string> obstacle_;
  static inline std::unique_ptr<SlurmCluster> cluster_;
};

void await_file(const std::filesystem::path& path) {
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  while (!std::filesystem::exists(path)) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << path << " does not appear";
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

std::vector<std::string> sorted_lines(const std::string& text) {
  auto lines = lines_of(text);
  std::sort(lines.begin(), lines.end());
  return lines;
}

// The ports at which ranks say that they meet.
std::set<std::string> ports_in(const std::string& text) {
  static const std::regex kMaster("master=[^ :]*:([0-9]+)");
  std::set<std::string> ports;
  for (std::sregex_iterator match(text.begin(), text.end(), kMaster), end; match != end; ++match) {
    ports.insert((*match)[1]);
  }
  return ports;
}

// A program with the nodes as hosts of their own, as far as Lockstep can tell.
Words on_own_hosts(const std::string& program) {
  return {"sh", "-c", "LOCKSTEP_HOST_ID=$SLURMD_NODENAME exec \"$0\"", program};
}

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string params_of(const Workbench& bench) {
  return nlohmann::json::parse(read_file(bench.work_dir() / "result.json"))["params_sha256"];
}

TEST_F(Slurm, ListsOfHostsMeanWhatSlurmSays) {
  for (const auto* list : {"n1", "a,b.example.org", "n[1-3]", "n[01-03,07]", "n[9-11]", "n[099-101]", "r[1-2]n[3-4]",
                           "n[5]", "n[1-2][3-4]", "n[01,1]", "n[3,1]", "n1,n1", "n[001-3]", "n[08-10],m"}) {
    const auto said = slurm().run({"scontrol", "show", "hostnames", list});
    ASSERT_TRUE(said.status.ok()) << list << ": " << said.err;
    EXPECT_EQ(detail::expand_host_list(list), lines_of(said.out)) << list;
  }
}

TEST_F(Slurm, EachTaskKnowsItsPlace) {
  const auto ran = slurm().srun({"-N2", "-n3", "--ntasks-per-node=2", kProbe});
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  const auto lines = sorted_lines(ran.out);
  ASSERT_EQ(lines.size(), 3U) << ran.out;
  const auto expect = [&](int rank, const std::string& local) {
    EXPECT_THAT(
        lines[static_cast<std::size_t>(rank)],
        MatchesRegex(fmt::format("rank {0} of 3 \\(local {1}\\) on host [^ ]*, started by slurm \\(SLURM_PROCID={0} "
                                 "SLURM_STEP_NUM_TASKS=3 step=[0-9]+\\.0 master={2}:2[0-9]+\\)",
                                 rank, local, SlurmCluster::node(0))));
  };
  expect(0, "0 of 2");
  expect(1, "1 of 2");
  expect(2, "0 of 1");
  EXPECT_EQ(ports_in(ran.out).size(), 1U) << ran.out;
}

TEST_F(Slurm, RanksOfOneNodeMeet) {
  const auto ran = slurm().srun({"-N1", "-n4", kAllgather});
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_EQ(ran.out, "[[0.], [1.], [2.], [3.]]\n");
}

TEST_F(Slurm, RanksOfTwoNodesMeet) {
  const auto ran = slurm().srun(with({"-N2", "-n3", "--ntasks-per-node=2"}, on_own_hosts(kAllgather)));
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_EQ(ran.out, "[[0.], [1.], [2.]]\n");
}

// Several groups one after the other, and two programs in one step, with ranks that pause before they leave.
TEST_F(Slurm, RanksMeetAgain) {
  for (int time = 0; time < 3; ++time) {
    const auto program = [&](int number) { return fmt::format("{} 4 {} {}", LOCKSTEP_MEET_AGAIN, time, number); };
    const auto ran = slurm().srun({"-N1", "-n2", "bash", "-c", program(1) + " && " + program(2)});
    ASSERT_TRUE(ran.status.ok()) << ran.err;
    EXPECT_EQ(ran.out, "1 met 4 times\n2 met 4 times\n");
  }
}

// Without the variable that other tests have, with products that OpenBLAS would divide among threads.
TEST_F(Slurm, TrainsTheSameAsUnderLockstepRun) {
  const Workbench bench;
  const Words train = bench.train({"model.hidden=[64]", "data.batch_size=20"});
  const auto ran =
      slurm().srun(with(with({"-N1", "-n2", "env", "-u", "OMP_NUM_THREADS"}, train), {"--launcher", "slurm"}));
  ASSERT_TRUE(ran.status.ok()) << ran.out << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("started by slurm"));
  expect_result(bench, 2);
  const std::string params = params_of(bench);
  std::filesystem::remove_all(bench.work_dir());
  const auto again = under_lockstep_run(2, train);
  ASSERT_TRUE(again.status.ok()) << again.err;
  EXPECT_EQ(params_of(bench), params);
}

TEST_F(Slurm, TrainsFromTheExampleForSbatch) {
  const Workbench bench;
  const auto log = bench.path() / "job.log";
  const auto given =
      slurm().run({"sbatch", "--parsable", "--output=" + log.string(),
                   LOCKSTEP_SOURCE_DIR "/examples/launch/slurm.sbatch", bench.config(), "data.batch_size=5"});
  ASSERT_TRUE(given.status.ok()) << given.err;
  const std::string job = lines_of(given.out).at(0);
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  std::string state;
  while (state.find("JobState=COMPLETED") == std::string::npos) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << state << read_file(log);
    ASSERT_EQ(state.find("JobState=FAILED"), std::string::npos) << read_file(log);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    state = slurm().run({"scontrol", "show", "job", job}).out;
  }
  EXPECT_THAT(read_file(log), HasSubstr("rank 0 of 4 (local 0 of 2)"));
  expect_result(bench, 4);
}

TEST_F(Slurm, ThoroughJobsAtTheSameTimeHavePortsOfTheirOwn) {
  const Words words = {"-N1", "-n2", "sh", "-c", "\"$0\" && exec \"$1\"", kProbe, kAllgather};
  auto other = std::async(std::launch::async, [&] { return slurm().srun(words); });
  const std::array<Captured, 2> ran = {slurm().srun(words), other.get()};
  for (const auto& job : ran) {
    ASSERT_TRUE(job.status.ok()) << job.err;
    EXPECT_THAT(job.out, HasSubstr("[[0.], [1.]]\n"));
    EXPECT_EQ(ports_in(job.out).size(), 1U) << job.out;
  }
  EXPECT_NE(ports_in(ran[0].out), ports_in(ran[1].out));
}

TEST_F(Slurm, ThoroughStepsOfOneJobHavePortsOfTheirOwn) {
  const auto ran = slurm().run({"salloc", "--quiet", "-N1", "-n4", "sh", "-c",
                                "srun --exact -n2 \"$0\" & srun --exact -n2 \"$0\" || exit; wait $!", kProbe});
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_EQ(lines_of(ran.out).size(), 4U) << ran.out;
  EXPECT_EQ(ports_in(ran.out).size(), 2U) << ran.out;
}

// What is left when two jobs are told the same port by hand.
TEST_F(Slurm, AJobThatComesToAnothersPortFailsAlone) {
  const TemporaryFolder folder;
  const auto go = folder.path() / "go";
  const Environment port = {{"MASTER_PORT", free_port()}};
  // Rank 1 of the first job comes late, so that the store of its rank 0 still waits when the second job arrives.
  const std::string late =
      "if [ $SLURM_PROCID = 1 ]; then touch \"$1.ready\"; until [ -e \"$1\" ]; do sleep 0.05; done; fi; exec \"$0\"";
  auto first = std::async(std::launch::async, [&] {
    return slurm().srun({"-N1", "-n2", "sh", "-c", late, kAllgather, go}, port);
  });
  await_file(folder.path() / "go.ready");
  const auto listening = fmt::format("until ss -ltn | grep -q ':{} '; do sleep 0.05; done", port.at("MASTER_PORT"));
  ASSERT_TRUE(slurm().run({"sh", "-c", listening}).status.ok());
  const auto second = slurm().srun({"-N1", "-n2", kAllgather}, port);
  write_file(go, "");
  EXPECT_FALSE(second.status.ok());
  EXPECT_THAT(second.err, AllOf(HasSubstr("rank 0 cannot open the port"), HasSubstr("MASTER_PORT")));
  const auto ran = first.get();
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_EQ(ran.out, "[[0.], [1.]]\n");
}

TEST_F(Slurm, KillOnBadExitEndsTheOthers) {
  const auto ran = slurm().srun({"-N1", "-n2", "sh", "-c", "[ $SLURM_PROCID = 1 ] && exit 3; exec \"$0\"", kAllgather});
  EXPECT_EQ(ran.status, (ExitStatus{128 + SIGTERM, 0}));
  EXPECT_THAT(ran.err, AllOf(HasSubstr("task 1: Exited with exit code 3"), HasSubstr("task 0: Terminated")));
}

TEST_F(Slurm, ARankThatIsKilledInTrainingEndsTheStep) {
  const Workbench bench;
  const auto ran = slurm().srun(with({"-N2", "-n2", "--ntasks-per-node=1"}, bench.train()),
                                {{"LOCKSTEP_FAULT", "rank=1,step=1,action=kill"}});
  EXPECT_FALSE(ran.status.ok());
  EXPECT_THAT(ran.err, HasSubstr("task 1: Killed"));
  EXPECT_FALSE(std::filesystem::exists(bench.work_dir() / "result.json"));
}

TEST_F(Slurm, ItsSignalEndsARunWithACheckpoint) {
  const Workbench bench;
  const auto words = with({"-J", "asked", "-N2", "-n2", "--ntasks-per-node=1"},
                          bench.train({"train.epochs=100000", "checkpoint.every_epochs=100000"}));
  auto job = std::async(std::launch::async, [&] { return slurm().srun(words); });
  await_file(bench.work_dir() / "metrics.jsonl");
  EXPECT_TRUE(slurm().run({"scancel", "--signal=TERM", "--name=asked"}).status.ok());
  const auto ran = job.get();
  EXPECT_EQ(ran.status, (ExitStatus{75, 0})) << ran.err;
  EXPECT_FALSE(std::filesystem::is_empty(bench.work_dir() / "checkpoints"));
}

TEST_F(Slurm, RankZeroOnAnotherNodeIsAnErrorUnlessItIsNamed) {
  const TemporaryFolder folder;
  const auto hosts = folder.path() / "hosts";
  write_file(hosts, SlurmCluster::node(1) + "\n" + SlurmCluster::node(0) + "\n");
  const Words words = {"-N2", "-n2", "--distribution=arbitrary", kAllgather};
  const auto refused = slurm().srun(words, {{"SLURM_HOSTFILE", hosts}});
  EXPECT_FALSE(refused.status.ok());
  EXPECT_THAT(refused.err, HasSubstr("set MASTER_ADDR to the host of rank 0"));
  const auto named = slurm().srun(words, {{"SLURM_HOSTFILE", hosts}, {"MASTER_ADDR", SlurmCluster::node(1)}});
  EXPECT_TRUE(named.status.ok()) << named.err;
  EXPECT_EQ(named.out, "[[0.], [1.]]\n");
}

// ---- other launchers around it

TEST_F(Slurm, LeftoversOfMpirunAreRefusedOrPassedOver) {
  const Environment leftover = {{"OMPI_COMM_WORLD_RANK", "0"},
                                {"OMPI_COMM_WORLD_SIZE", "1"},
                                {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}};
  const auto refused = slurm().srun({"-N1", "-n2", kProbe}, leftover);
  EXPECT_FALSE(refused.status.ok());
  EXPECT_THAT(refused.err, AllOf(HasSubstr("open_mpi (OMPI_COMM_WORLD_RANK=0"), HasSubstr("contradicts slurm"),
                                 HasSubstr("2 processes cannot be 1 rank"), HasSubstr("--launcher")));
  const auto named = slurm().srun({"-N1", "-n2", kProbe, "slurm"}, leftover);
  EXPECT_TRUE(named.status.ok()) << named.err;
  EXPECT_THAT(named.out, HasSubstr("rank 1 of 2 (local 1 of 2)"));
}

TEST_F(Slurm, VariablesOfTorchrunWinOverTheStep) {
  const auto ran = slurm().srun({"-N1", "-n1", "lockstep", "run", "--nproc-per-node", "2", kProbe});
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("rank 1 of 2 (local 1 of 2)"), HasSubstr("started by lockstep run"),
                             HasSubstr("which takes precedence over slurm")));
}

TEST_F(Slurm, TheShellOfAnAllocationIsNoRank) {
  const auto ran = slurm().run({"salloc", "--quiet", "-N2", "-n2", kProbe});
  EXPECT_FALSE(ran.status.ok()) << ran.out;
  EXPECT_THAT(ran.err, AllOf(HasSubstr("SLURM_JOB_NUM_NODES=2"), HasSubstr("not started by srun"),
                             HasSubstr("--launcher none")));
  const auto alone = slurm().run({"salloc", "--quiet", "-N2", "-n2", kProbe, "none"});
  ASSERT_TRUE(alone.status.ok()) << alone.err;
  EXPECT_THAT(alone.out, HasSubstr("rank 0 of 1"));
}

// ---- the cluster itself

bool listens(int port) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

TEST_F(Slurm, ThoroughItsEndIsTheEndOfEverythingInIt) {
  const TemporaryFolder folder;
  const auto lock = folder.path() / "lock";
  auto cluster = std::make_unique<SlurmCluster>(1);
  const int port = cluster->control_port();
  EXPECT_TRUE(listens(port));
  ChildOptions options;
  options.arguments = {"srun", "-n1", "flock", lock, "sh", "-c", "touch \"$0.held\"; sleep 1000", lock};
  options.environment = cluster->environment();
  options.err = ChildStream::discard;
  const Child srun(options);
  await_file(folder.path() / "lock.held");
  const UniqueFd mine(::open(lock.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_NE(::flock(mine.get(), LOCK_EX | LOCK_NB), 0);
  cluster.reset();
  EXPECT_EQ(::flock(mine.get(), LOCK_EX | LOCK_NB), 0);  // the task is gone
  EXPECT_FALSE(listens(port));
}

}  // namespace
}  // namespace lockstep::test
