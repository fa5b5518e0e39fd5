// Ways in that start the same command on each of several nodes.
#include "cli/read_until.h"
#include "cli/two_nodes.h"
#include "support/port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <future>

namespace lockstep::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Nodes, TwoNodesOfTwoDevicesFromTheConfiguration) {
  const Workbench bench;
  write_file(bench.config(), read_file(bench.config()) +
                                 "parallel:\n  nodes: [{addr: 127.0.0.2}, {addr: 127.0.0.3}]\n  ctrl_port: " +
                                 free_port() + "\n  devices_per_node: 2\n");
  const auto ran = on_two_nodes(bench.path(), bench.train({"data.batch_size=5"}), loopback_nodes());
  for (const auto& node : ran) ASSERT_TRUE(node.status.ok()) << node.out << node.err;
  EXPECT_THAT(ran[0].out, StartsWith("node 0 of 2"));
  EXPECT_THAT(ran[0].out, AllOf(HasSubstr("): ranks 0 to 1 of 4\n"), HasSubstr("[rank 0] rank 0 of 4 (local 0 of 2)")));
  EXPECT_THAT(ran[1].out, HasSubstr("): ranks 2 to 3 of 4\n"));
  EXPECT_THAT(ran[1].out, Not(HasSubstr("loss is")));
  expect_result(bench, 4);
}

TEST(Nodes, ProgramsMeetByTheirListOfNodes) {
  const TemporaryFolder folder;
  const Words program = {LOCKSTEP_EXAMPLES "/node_list", free_port(), "127.0.0.2", "127.0.0.3"};
  const auto ran = on_two_nodes(folder.path(), program, loopback_nodes());
  for (const auto& node : ran) ASSERT_TRUE(node.status.ok()) << node.err;
  EXPECT_THAT(ran[0].out, StartsWith("met 2 nodes: rank 0 of 2 (local 0 of 1)"));
  EXPECT_EQ(ran[1].out, "");
}

TEST(Nodes, RunStartsTwoNodesFromAList) {
  const TemporaryFolder folder;
  const Words program = {"lockstep",
                         "run",
                         "--nodes",
                         "127.0.0.2,127.0.0.3",
                         "--ctrl_port",
                         free_port(),
                         "--nproc-per-node",
                         "2",
                         LOCKSTEP_EXAMPLES "/toy_ddp"};
  const auto ran = on_two_nodes(folder.path(), program, loopback_nodes());
  for (const auto& node : ran) ASSERT_TRUE(node.status.ok()) << node.err;
  EXPECT_EQ(ran[0].out, "[rank 0] replicas on 4 rank(s) are equal\n");
}

// Of DeepSpeed, Horovod and mpirun; with another number of ranks on each node.
TEST(Nodes, RunStartsTheHostsOfAFile) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "hostfile";
  std::ofstream(file) << "127.0.0.2 slots=1\n127.0.0.3 slots=2\n";
  const Words program = {
      "lockstep", "run", "--hostfile", file.string(), "--master-port", free_port(), LOCKSTEP_EXAMPLES "/toy_ddp"};
  const auto ran = on_two_nodes(folder.path(), program, loopback_nodes());
  for (const auto& node : ran) ASSERT_TRUE(node.status.ok()) << node.err;
  EXPECT_EQ(ran[0].out, "[rank 0] replicas on 3 rank(s) are equal\n");
}

TEST(Nodes, RunTakesTheFlagsOfMsrunAndAnyPort) {
  const TemporaryFolder folder;
  for (const Words& flags : {Words{"--worker_num", "2", "--local_worker_num", "2", "--join=True"},
                             Words{"--rdzv_backend", "c10d", "--rdzv_endpoint=localhost:0", "--nproc_per_node", "2"},
                             Words{"-H", "localhost:2"}}) {
    Words words = {"lockstep", "run"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.emplace_back(LOCKSTEP_EXAMPLES "/toy_ddp");
    const auto ran = run_in(folder.path(), words);
    ASSERT_TRUE(ran.status.ok()) << ran.err;
    EXPECT_EQ(ran.out, "[rank 0] replicas on 2 rank(s) are equal\n");
  }
}

TEST(Nodes, ANodeThatWaitsInVainSaysForWhom) {
  const Workbench bench;
  const Words words =
      bench.train({"parallel.nodes=[{addr: 127.0.0.2}, {addr: 127.0.0.3}]", "parallel.ctrl_port=" + free_port()});
  const auto ran =
      run_in(bench.path(), words, {{"LOCKSTEP_NODE_ADDR", "127.0.0.3"}, {"LOCKSTEP_START_TIMEOUT_S", "1"}});
  EXPECT_EQ(ran.status, (ExitStatus{1, 0}));
  EXPECT_THAT(ran.err, AllOf(HasSubstr("cannot reach the store at 127.0.0.2:"), HasSubstr("Connection refused")));
  const auto unknown = run_in(bench.path(), words);
  EXPECT_EQ(unknown.status, (ExitStatus{2, 0}));
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("2 of the nodes 127.0.0.2, 127.0.0.3"), HasSubstr("LOCKSTEP_NODE_ADDR")));
}

TEST(Nodes, TheSameCommandOnTwoHostsAndNothingElse) {
  const TwoHosts hosts;
  if (!hosts.made()) GTEST_SKIP() << TwoHosts::kObstacle;
  const Workbench bench;
  const Words words = bench.train({"parallel.nodes=[{addr: 10.77.0.1}, {addr: 10.77.0.2}]", "parallel.ctrl_port=9988"});
  ChildOptions second;
  second.arguments = TwoHosts::on(1, words);
  second.environment = environment_of_scripts();
  second.working_directory = bench.path();
  second.out = ChildStream::discard;
  second.err = ChildStream::pipe;
  Child waiting(second);
  const std::string said = read_until(waiting.err(), "s of at most 60 s (Connection refused)");
  EXPECT_THAT(said, HasSubstr("rank 1 waits for the store at 10.77.0.1:9988: 2 s"));
  const auto first = run_in(bench.path(), TwoHosts::on(0, words));
  ASSERT_TRUE(first.status.ok()) << first.err;
  EXPECT_EQ(waiting.wait_for(std::chrono::seconds(60)), (ExitStatus{0, 0}));
  EXPECT_THAT(first.out, StartsWith("rank 0 of 2 (local 0 of 1)"));
  EXPECT_THAT(first.out, HasSubstr("started by nodes (nodes 10.77.0.1, 10.77.0.2, this is 10.77.0.1, ctrl_port 9988)"));
  expect_result(bench, 2);
}

// ---- launchers before torchrun, which say LOCAL_RANK alone

Environment old_launcher(int rank, int local_rank, const Environment& more) {
  Environment environment = {
      {"RANK", std::to_string(rank)}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", std::to_string(local_rank)}};
  environment.insert(more.begin(), more.end());
  return environment;
}

TEST(OldLaunchers, LocalRanksAreCountedWhenTheyMeet) {
  const Workbench bench;
  const Environment rendezvous = {{"LOCKSTEP_INIT_METHOD", "file://" + (bench.path() / "store").string()}};
  const auto ran =
      on_two_nodes(bench.path(), bench.train(), {old_launcher(0, 0, rendezvous), old_launcher(1, 1, rendezvous)});
  for (const auto& rank : ran) ASSERT_TRUE(rank.status.ok()) << rank.err;
  EXPECT_THAT(ran[0].out, StartsWith("rank 0 of 2 (local 0 of 2)"));
}

TEST(OldLaunchers, AMasterOnAnotherHost) {
  const TwoHosts hosts;
  if (!hosts.made()) GTEST_SKIP() << TwoHosts::kObstacle;
  const Workbench bench;
  const Environment master = {{"MASTER_ADDR", TwoHosts::address(0)}, {"MASTER_PORT", "6060"}};
  const auto rank = [&](int host) {
    return run_in(bench.path(), TwoHosts::on(host, bench.train()), old_launcher(host, 0, master));
  };
  auto second = std::async(std::launch::async, [&] { return rank(1); });
  const auto first = rank(0);
  ASSERT_TRUE(first.status.ok()) << first.err;
  EXPECT_TRUE(second.get().status.ok());
  EXPECT_THAT(first.out, StartsWith("rank 0 of 2 (local 0 of 1)"));
}

// ---- launchers that say nothing of local ranks

// As Kubeflow's PyTorchJob v1 does: the master's Pod gets localhost, the others the name of the master's Service.
TEST(WithoutLocalRanks, TheMasterIsToldLocalhostAndTheOthersAreElsewhere) {
  const TwoHosts hosts;
  if (!hosts.made()) GTEST_SKIP() << TwoHosts::kObstacle;
  const Workbench bench;
  const auto rank = [&](int host, const std::string& master) {
    const Environment variables = {
        {"RANK", std::to_string(host)}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", master}, {"MASTER_PORT", "23456"}};
    return run_in(bench.path(), TwoHosts::on(host, bench.train()), variables);
  };
  auto second = std::async(std::launch::async, [&] { return rank(1, TwoHosts::address(0)); });
  const auto first = rank(0, "localhost");
  ASSERT_TRUE(first.status.ok()) << first.err;
  EXPECT_TRUE(second.get().status.ok());
  EXPECT_THAT(first.out, StartsWith("rank 0 of 2 (local 0 of 1)"));
  expect_result(bench, 2);
}

TEST(WithoutLocalRanks, RanksOfOneHostAreCountedWhenTheyMeet) {
  const Workbench bench;
  const auto port = free_port();
  const auto variables = [&](int rank) -> Environment {
    return {{"RANK", std::to_string(rank)}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", port}};
  };
  const auto ran = on_two_nodes(bench.path(), bench.train(), {variables(0), variables(1)});
  for (const auto& rank : ran) ASSERT_TRUE(rank.status.ok()) << rank.err;
  EXPECT_THAT(ran[0].out, StartsWith("rank 0 of 2 (local 0 of 2)"));
}

}  // namespace
}  // namespace lockstep::test
