// Each script of examples/launch, started as its first lines say, with a tiny data set.
#include "cli/two_nodes.h"
#include "support/port.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <future>

namespace lockstep::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

Words script(const std::string& name, Words more) {
  more.insert(more.begin(), {"bash", LOCKSTEP_SOURCE_DIR "/examples/launch/" + name});
  return more;
}

// ---- rank tables

void run_rank_table_script(const std::string& device_num, const std::string& name, int ranks, int first_device) {
  const Workbench bench;
  const auto made =
      run_in(bench.path(), {"lockstep", "rank-table", "--device_num", device_num, "--server_ip", "127.0.0.1"});
  ASSERT_TRUE(made.status.ok()) << made.err;
  const auto ran =
      run_in(bench.path(), script(name, {bench.config(), "data.batch_size=2"}), {{"MASTER_PORT", free_port()}});
  const std::string log = read_file(bench.path() / "train.log");
  ASSERT_TRUE(ran.status.ok()) << ran.out << ran.err << log;
  EXPECT_THAT(ran.out, StartsWith(fmt::format("Launching rank: 0, device: {}\ni am 0\n", first_device)));
  EXPECT_THAT(log, StartsWith(fmt::format("rank 0 of {} (local 0 of {}, device {})", ranks, ranks, first_device)));
  EXPECT_THAT(log, AllOf(HasSubstr("started by rank_table (RANK_ID=0"), HasSubstr("done: accuracy")));
  expect_result(bench, ranks);
}

TEST(LaunchExamples, ThoroughEightRanksFromARankTable) { run_rank_table_script("[0,8)", "ascend8p.sh", 8, 0); }

TEST(LaunchExamples, FourRanksFromARankTable) { run_rank_table_script("[4,8)", "ascend4p.sh", 4, 4); }

TEST(LaunchExamples, ARankTableThatDoesNotFitFailsTheScript) {
  const Workbench bench;
  write_file(bench.path() / "hccl_4p_4567_127.0.0.1.json", "{\"server_list\": []}");
  const auto ran = run_in(bench.path(), script("ascend4p.sh", {bench.config()}));
  EXPECT_EQ(ran.status, (ExitStatus{2, 0}));
  EXPECT_THAT(read_file(bench.path() / "train.log"),
              AllOf(HasSubstr("lockstep: error: [rank_table] server_list"), HasSubstr("127.0.0.1.json:1)")));
}

// ---- lists of nodes

TEST(LaunchExamples, TwoNodesFromAList) {
  const Workbench bench;
  const auto ran = run_in(bench.path(), script("node_list.sh", {bench.config()}), {{"CTRL_PORT", free_port()}});
  ASSERT_TRUE(ran.status.ok()) << ran.out << ran.err;
  EXPECT_THAT(ran.out, StartsWith("rank 0 of 2 (local 0 of 1)"));
  EXPECT_THAT(ran.out, HasSubstr("started by nodes (nodes 127.0.0.2, 127.0.0.3, this is 127.0.0.2, ctrl_port"));
  expect_result(bench, 2);
}

// ---- a cloud's three ways

std::array<Environment, 2> cloud_hosts(const std::string& gpus) {
  std::array<Environment, 2> hosts;
  const std::string port = free_port();
  for (std::size_t index = 0; index < hosts.size(); ++index) {
    hosts[index] = {{"VC_WORKER_HOSTS", "127.0.0.2,127.0.0.3"},
                    {"VC_TASK_INDEX", std::to_string(index)},
                    {"MA_NUM_HOSTS", "2"},
                    {"MA_NUM_GPUS", gpus},
                    {"MASTER_PORT", port},
                    {"LOCKSTEP_HOST_ID", "host " + std::to_string(index)}};
  }
  return hosts;
}

void expect_cloud_job(const std::string& name, const Words& more, int ranks, const std::string& gpus,
                      const std::string& first_words) {
  const Workbench bench;
  Words words = script(name, more);
  for (const auto& word : {std::string("--config"), bench.config(), std::string("data.batch_size=5")}) {
    words.push_back(word);
  }
  const auto ran = on_two_nodes(bench.path(), words, cloud_hosts(gpus));
  for (const auto& host : ran) ASSERT_TRUE(host.status.ok()) << host.out << host.err;
  EXPECT_THAT(ran[0].out, StartsWith(first_words));
  EXPECT_THAT(ran[0].out, HasSubstr(fmt::format("rank 0 of {} (local 0 of {})", ranks, ranks / 2)));
  expect_result(bench, ranks);
}

TEST(LaunchExamples, ThoroughCloudJobThatStartsItsRanksItself) {
  expect_cloud_job("cloud_spawn.sh", {}, 4, "2", "node 0 of 2 on host ");
  expect_cloud_job("cloud_spawn.sh", {}, 2, "0", "rank 0 of 2 (local 0 of 1)");
}

TEST(LaunchExamples, CloudJobWithThePlatformsArguments) {
  const Workbench bench;
  const std::string port = free_port();
  const auto host = [&](int rank) {
    const Words arguments = {"--config",
                             bench.config(),
                             "--init_method=tcp://127.0.0.2:" + port,
                             "--rank=" + std::to_string(rank),
                             "--world_size=2",
                             "parallel.devices_per_node=2",
                             "data.batch_size=5"};
    return run_in(bench.path(), script("cloud_spawn.sh", arguments),
                  {{"LOCKSTEP_HOST_ID", "host " + std::to_string(rank)}});
  };
  auto second = std::async(std::launch::async, [&] { return host(1); });
  const auto first = host(0);
  ASSERT_TRUE(first.status.ok()) << first.err;
  EXPECT_TRUE(second.get().status.ok());
  EXPECT_THAT(first.out,
              HasSubstr("started by arguments (--rank 0 --world_size 2 LOCKSTEP_INIT_METHOD=tcp://127.0.0.2"));
  expect_result(bench, 4);
}

TEST(LaunchExamples, ThoroughCloudJobByTheArgumentsOfLaunch) {
  expect_cloud_job("cloud_launch.sh", {"lockstep", "train"}, 4, "2", "lockstep run --nnodes=2 --node_rank=0");
}

TEST(LaunchExamples, CloudJobByTheArgumentsOfRun) {
  expect_cloud_job("cloud_run.sh", {"lockstep", "train"}, 4, "2",
                   "lockstep run --nnodes=2 --node_rank=0 --rdzv_conf=is_host=1");
}

// ---- one machine

void expect_two_ranks(const std::string& name, const Environment& variables, const std::string& words) {
  const Workbench bench;
  const auto ran = run_in(bench.path(), script(name, {bench.config()}), variables);
  ASSERT_TRUE(ran.status.ok()) << ran.out << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("rank 0 of 2 (local 0 of 2)"), HasSubstr(words)));
  expect_result(bench, 2);
}

TEST(LaunchExamples, LockstepRun) { expect_two_ranks("run.sh", {}, "started by lockstep run (RANK=0 WORLD_SIZE=2"); }

TEST(LaunchExamples, Mpirun) {
  if (!LOCKSTEP_HAS_MPI) GTEST_SKIP() << "this build has no MPI";
  const bool open_mpi = run_program({LOCKSTEP_MPIRUN, "--version"}).out.find("Open") != std::string::npos;
  const std::string flags = open_mpi ? "--oversubscribe --allow-run-as-root" : "";
  expect_two_ranks("mpirun.sh", {{"MPIRUN_FLAGS", flags}}, "started by ");
}

TEST(LaunchExamples, RanksByHandThatMeetInAFile) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "meet").string();
  expect_two_ranks("init_method.sh", {{"INIT_METHOD", "file://" + file}}, "LOCKSTEP_INIT_METHOD=file://" + file);
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(LaunchExamples, RanksByHandThatMeetAtAnAddress) {
  const std::string place = "127.0.0.1:" + free_port();
  expect_two_ranks("init_method.sh", {{"INIT_METHOD", "tcp://" + place}}, "LOCKSTEP_INIT_METHOD=tcp://" + place);
}

TEST(LaunchExamples, TheArgumentsOfTorchrun) {
  const Workbench bench;
  const auto ran = run_in(bench.path(), script("torchrun.sh", {"lockstep", "train", "--config", bench.config()}),
                          {{"MASTER_PORT", free_port()}});
  ASSERT_TRUE(ran.status.ok()) << ran.out << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("rank 0 of 2 (local 0 of 2)"));
  expect_result(bench, 2);
}

TEST(LaunchExamples, AProgramThatSpawnsItsRanks) {
  const TemporaryFolder folder;
  const auto ran = run_in(folder.path(), script("spawn.sh", {LOCKSTEP_EXAMPLES "/spawn"}));
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_EQ(ran.out, "replicas on 2 rank(s) are equal\n");
  // Pools of threads that OpenBLAS makes when it is loaded are not an obstacle.
  const auto pools = run_in(folder.path(), {LOCKSTEP_EXAMPLES "/spawn", "--nprocs=2", "--data_url=s3://x"},
                            {{"OMP_NUM_THREADS", "3"}});
  ASSERT_TRUE(pools.status.ok()) << pools.err;
  EXPECT_THAT(pools.err, HasSubstr("--data_url=s3://x is ignored"));
  const auto refused = run_in(folder.path(), {LOCKSTEP_EXAMPLES "/spawn", "--nprocs", "0"});
  EXPECT_EQ(refused.status, (ExitStatus{1, 0}));
  EXPECT_THAT(refused.err, HasSubstr("--nprocs needs a whole number from 1"));
}

// ---- several nodes

TEST(LaunchExamples, LockstepRunOnTwoNodes) {
  const Workbench bench;
  auto nodes = loopback_nodes();
  const std::string port = free_port();
  for (auto& node : nodes) node.insert({{"CTRL_PORT", port}, {"RANKS_PER_NODE", "1"}});
  const auto ran = on_two_nodes(bench.path(), script("run_nodes.sh", {"127.0.0.2,127.0.0.3", bench.config()}), nodes);
  for (const auto& node : ran) ASSERT_TRUE(node.status.ok()) << node.out << node.err;
  EXPECT_THAT(ran[0].out, HasSubstr("rank 0 of 2 (local 0 of 1)"));
  expect_result(bench, 2);
}

TEST(LaunchExamples, ThoroughAProgramThatSpawnsItsRanksOnTwoNodes) {
  const TemporaryFolder folder;
  const std::string port = free_port();
  std::array<Environment, 2> nodes;
  for (std::size_t node = 0; node < 2; ++node) {
    nodes[node] = {{"NODES", "2"},
                   {"NODE_RANK", std::to_string(node)},
                   {"MASTER_ADDR", "127.0.0.1"},
                   {"MASTER_PORT", port},
                   {"LOCKSTEP_HOST_ID", "node " + std::to_string(node)}};
  }
  const auto ran = on_two_nodes(folder.path(), script("spawn.sh", {LOCKSTEP_EXAMPLES "/spawn"}), nodes);
  for (const auto& node : ran) ASSERT_TRUE(node.status.ok()) << node.out << node.err;
  EXPECT_EQ(ran[0].out, "replicas on 4 rank(s) are equal\n");
  EXPECT_EQ(ran[1].out, "");
}

}  // namespace
}  // namespace lockstep::test
