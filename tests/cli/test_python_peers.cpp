// Python's torch.distributed and Lockstep in one job: Python ranks under `lockstep run` on two hosts, and Lockstep
// ranks that meet at a store which a Python process hosts.
#include <lockstep/base/text.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "cli/read_until.h"
#include "cli/stranger_at_ports.h"
#include "cli/two_nodes.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr const char* kTorchRanks = LOCKSTEP_SOURCE_DIR "/tests/cli/torch_ranks.py";

/// `lockstep run FLAGS torch_ranks.py` on two hosts with two ranks each; by host.
std::array<Captured, 2> python_on_two_hosts(const std::array<Words, 2>& flags) {
  const TemporaryFolder folder;
  const auto host = [&](int index) {
    Words words = {"lockstep", "run", "--nnodes", "2", "--nproc_per_node", "2"};
    for (const auto& word : flags[static_cast<std::size_t>(index)]) words.push_back(word);
    words.insert(words.end(), {LOCKSTEP_PYTHON, kTorchRanks});
    // The name of this machine leads out of the namespace: Gloo is told which interface is the host's.
    return run_in(folder.path(), TwoHosts::on(index, words), {{"GLOO_SOCKET_IFNAME", TwoHosts::interface(index)}});
  };
  auto second = std::async(std::launch::async, [&] { return host(1); });
  Captured first = host(0);
  return {std::move(first), second.get()};
}

void expect_four_ranks(const std::array<Captured, 2>& ran) {
  for (const auto& host : ran) ASSERT_TRUE(host.status.ok()) << host.err;
  EXPECT_THAT(lines_of(ran[0].out),
              UnorderedElementsAre("[rank 0] sum 10 mean gradient 2.5", "[rank 1] sum 10 mean gradient 2.5"));
  EXPECT_THAT(lines_of(ran[1].out),
              UnorderedElementsAre("[rank 2] sum 10 mean gradient 2.5", "[rank 3] sum 10 mean gradient 2.5"));
}

TEST(PythonPeers, RanksOnTwoHostsByNodeRank) {
  const TwoHosts hosts;
  if (!hosts.made()) GTEST_SKIP() << TwoHosts::kObstacle;
  const auto flags = [](const char* node) {
    return Words{"--node_rank", node, "--master_addr", TwoHosts::address(0), "--master_port", "6060"};
  };
  expect_four_ranks(python_on_two_hosts({flags("0"), flags("1")}));
}

TEST(PythonPeers, ThoroughRanksOnTwoHostsByC10d) {
  const TwoHosts hosts;
  if (!hosts.made()) GTEST_SKIP() << TwoHosts::kObstacle;
  const Words flags = {"--rdzv_backend", "c10d", "--rdzv_endpoint", TwoHosts::address(0)};
  expect_four_ranks(python_on_two_hosts({flags, flags}));
}

// (With libtorch 1.13 that store listens on all addresses for its first milliseconds, before any rank is told its
// port.)
TEST(PythonPeers, RanksOnOneHostMeetAtLoopbackAlone) {
  const StrangerAtPorts watcher("", StrangerAtPorts::Visit::look);
  const auto ran =
      run_program({LOCKSTEP_BINARY, "run", "--nproc_per_node", "2", LOCKSTEP_PYTHON, kTorchRanks}, watcher.mark());
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("sum 3 mean gradient 1.5"));
  const auto open = watcher.open_to_others();
  EXPECT_THAT(open, testing::Not(testing::Contains("lockstep"))) << "the launcher itself, with the ranks' own store";
}

// ---- a store that Python hosts

/// Runs the toy program as both ranks of a job that meet at a store of somebody else.
void expect_ranks_meet(const std::string& port, const std::string& restart) {
  const auto rank = [&](const std::string& number) {
    return run_program({LOCKSTEP_EXAMPLES "/toy_ddp"}, {{"RANK", number},
                                                        {"WORLD_SIZE", "2"},
                                                        {"LOCAL_RANK", number},
                                                        {"LOCAL_WORLD_SIZE", "2"},
                                                        {"MASTER_ADDR", "127.0.0.1"},
                                                        {"MASTER_PORT", port},
                                                        {"LOCKSTEP_START_TIMEOUT_S", "60"},
                                                        {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                                        {"TORCHELASTIC_RESTART_COUNT", restart}});
  };
  auto second = std::async(std::launch::async, [&] { return rank("1"); });
  const auto first = rank("0");
  EXPECT_TRUE(first.status.ok()) << first.err;
  const auto other = second.get();
  EXPECT_TRUE(other.status.ok()) << other.err;
  EXPECT_EQ(first.out, "replicas on 2 rank(s) are equal\n");
}

ChildOptions store_of_python() {
  ChildOptions options;
  options.arguments = {LOCKSTEP_PYTHON, LOCKSTEP_SOURCE_DIR "/tests/cli/torch_store.py"};
  options.environment = plain_environment();
  options.out = ChildStream::pipe;
  return options;
}

TEST(PythonPeers, LockstepRanksMeetAtAStoreOfPython) {
  Child host(store_of_python());
  std::string port = read_until(host.out(), "\n");
  ASSERT_TRUE(port.ends_with('\n')) << "the host of the store ended";
  port.pop_back();
  expect_ranks_meet(port, "0");
  expect_ranks_meet(port, "1");  // the same store holds the keys of the first start still
  host.signal_group(SIGTERM);
  EXPECT_EQ(read_until(host.out(), "\n"), "keys\n");
  EXPECT_EQ(host.wait_for(60s), (ExitStatus{0, 0}));
}

TEST(PythonPeers, ARankThatEncryptsRefusesAStoreOfPython) {
  const TemporaryFolder folder;
  ASSERT_TRUE(lockstep({"certs", "init", folder.path() / "certs"}).status.ok());
  Child host(store_of_python());
  std::string port = read_until(host.out(), "\n");
  ASSERT_TRUE(port.ends_with('\n')) << "the host of the store ended";
  port.pop_back();
  const auto ran = run_program({LOCKSTEP_EXAMPLES "/toy_ddp"},
                               {{"RANK", "0"},
                                {"WORLD_SIZE", "2"},
                                {"LOCAL_RANK", "0"},
                                {"LOCAL_WORLD_SIZE", "1"},
                                {"MASTER_ADDR", "127.0.0.1"},
                                {"MASTER_PORT", port},
                                {"LOCKSTEP_START_TIMEOUT_S", "60"},
                                {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                {"LOCKSTEP_ENCRYPT", "1"},
                                {"LOCKSTEP_CLUSTER_CONFIG", folder.path() / "certs/localhost/config.json"}});
  EXPECT_FALSE(ran.status.ok());
  EXPECT_THAT(
      ran.err,
      HasSubstr(
          "encryption is on (parallel.encrypt, LOCKSTEP_ENCRYPT), but the store of the launcher at 127.0.0.1:" + port +
          " belongs to c10d, which cannot encrypt. Start with 'lockstep run' "
          "instead of torchrun"));
}

}  // namespace
}  // namespace lockstep::test
