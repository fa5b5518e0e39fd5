// Tests of the backend of torch.distributed under launchers that set no variable of PyTorch: a real Slurm, and mpirun.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "cli/program.h"
#include "cli/two_nodes.h"
#include "launchers/slurm_cluster.h"

namespace lockstep::test {
namespace {

const Words kDdp = {LOCKSTEP_PYTHON, LOCKSTEP_DDP_EXAMPLE, "--backend", "lockstep", "--steps", "3"};
const Environment kPackage = {{"PYTHONPATH", LOCKSTEP_PYTHON_PACKAGE}, {"OMP_NUM_THREADS", "1"}};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Each rank has trained, and all with one result.
void expect_ranks(const Captured& ran, int size) {
  ASSERT_TRUE(ran.status.ok()) << ran.out << ran.err;
  auto lines = lines_of(ran.out);
  std::sort(lines.begin(), lines.end());
  ASSERT_EQ(lines.size(), static_cast<std::size_t>(size)) << ran.out;
  const auto result = [](const std::string& line) { return line.substr(line.find(": loss")); };
  for (int rank = 0; rank < size; ++rank) {
    const auto& line = lines[static_cast<std::size_t>(rank)];
    ASSERT_THAT(line, testing::StartsWith(fmt::format("rank {} of {} with lockstep: loss", rank, size)));
    EXPECT_EQ(result(line), result(lines.front()));
  }
}

TEST(PythonRanks, MeetInSlurm) {
  if (const auto obstacle = SlurmCluster::obstacle()) GTEST_SKIP() << *obstacle;
  const SlurmCluster slurm(2);
  expect_ranks(slurm.srun(with({"-N1", "-n2"}, kDdp), kPackage), 2);
  expect_ranks(slurm.srun(with({"-N2", "-n3", "--ntasks-per-node=2"}, kDdp), kPackage), 3);
}

TEST(PythonRanks, MeetUnderMpirun) { expect_ranks(under_mpirun(3, kDdp, kPackage), 3); }

TEST(PythonRanks, MeetOnTwoHosts) {
  const TwoHosts hosts;
  if (!hosts.made()) GTEST_SKIP() << TwoHosts::kObstacle;
  Captured ends[2];
  std::vector<std::thread> nodes;
  for (int node = 0; node < 2; ++node) {
    nodes.emplace_back([&, node] {
      Words launch = {LOCKSTEP_PYTHON, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2"};
      launch = with(launch, {"--node-rank", std::to_string(node), "--master-addr", TwoHosts::address(0)});
      const Words program(kDdp.begin() + 1, kDdp.end());
      auto variables = kPackage;
      variables.emplace("LOCKSTEP_HOST_ID", TwoHosts::interface(node));
      ends[node] = run_program(TwoHosts::on(node, with(with(launch, {"--master-port", "29533"}), program)), variables);
    });
  }
  for (auto& node : nodes) node.join();
  ends[0].out += ends[1].out;
  ASSERT_TRUE(ends[1].status.ok()) << ends[1].err;
  expect_ranks(ends[0], 4);
}

}  // namespace
}  // namespace lockstep::test
