#include <lockstep/world/detect.h>

#include <set>

#include "world/world_cases.h"

namespace lockstep {
namespace {

using test::expect_readings;
using test::expect_refusals;

using Hosts = std::vector<std::string>;

TEST(SlurmSyntax, ExpandsHostLists) {
  const std::vector<std::pair<std::string, Hosts>> cases = {
      {"n1", {"n1"}},
      {"a,b.example.org", {"a", "b.example.org"}},
      {"n[1-3]", {"n1", "n2", "n3"}},
      {"n[01-03,07]", {"n01", "n02", "n03", "n07"}},
      {"n[9-11]", {"n9", "n10", "n11"}},
      {"n[099-101]", {"n099", "n100", "n101"}},
      {"host[01-03,07],other[1-2]x", {"host01", "host02", "host03", "host07", "other1x", "other2x"}},
      {"r[1-2]n[3-4]", {"r1n3", "r1n4", "r2n3", "r2n4"}},
      {"[1-2]a", {"1a", "2a"}},
      {"n[5]", {"n5"}},
  };
  for (const auto& [text, hosts] : cases) EXPECT_EQ(detail::expand_host_list(text), hosts) << text;
}

TEST(SlurmSyntax, RefusesOtherHostLists) {
  for (const auto* text : {"", ",", "a,", ",a", "n[", "n[]", "n[1", "n]", "n[1-]", "n[-2]", "n[2-1]", "n[a-b]", "n[1,]",
                           "n[[1]]", "a b", "n[0-99999]", "a[1-1000]b[1-1000]", "n[1-99999999999999999999]"}) {
    EXPECT_EQ(detail::expand_host_list(text), std::nullopt) << "'" << text << "'";
  }
}

TEST(SlurmSyntax, ExpandsTasksPerNode) {
  EXPECT_EQ(detail::expand_tasks_per_node("4"), (std::vector<int>{4}));
  EXPECT_EQ(detail::expand_tasks_per_node("8(x2),4"), (std::vector<int>{8, 8, 4}));
  EXPECT_EQ(detail::expand_tasks_per_node("2,1(x3)"), (std::vector<int>{2, 1, 1, 1}));
  for (const auto* text : {"", ",", "a", "8(x", "8(x)", "8(x0)", "8x2", "(x2)", "8(x2", "-1", "8(x99999999)", "8()"}) {
    EXPECT_EQ(detail::expand_tasks_per_node(text), std::nullopt) << "'" << text << "'";
  }
}

// What srun -N2 -n4 --ntasks-per-node=2 sets for its last task but one.
constexpr std::string_view kStep =
    "SLURM_JOB_ID=20 SLURM_PROCID=2 SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=4 SLURM_LOCALID=0 SLURM_NODEID=1 "
    "SLURM_STEP_ID=0 "
    "SLURM_STEP_TASKS_PER_NODE=2(x2) SLURM_STEP_NODELIST=n[1-2]";

std::string with(std::string_view more) { return std::string(kStep) + " " + std::string(more); }

std::string with_changed(std::string_view name, std::string_view value) {
  Environment environment = test::environment_of(kStep);
  environment[std::string(name)] = value;
  std::string text;
  for (const auto& [key, old] : environment) text += (text.empty() ? "" : " ") + key + "=" + old;
  return text;
}

std::string without(std::string_view name) {
  std::string text;
  for (const auto& [key, value] : test::environment_of(kStep)) {
    if (key != name) text += (text.empty() ? "" : " ") + key + "=" + value;
  }
  return text;
}

TEST(WorldSlurm, ReadsAStepOfSrun) {
  expect_readings({
      {kStep, "slurm 2/4 local 0/2 tcp n1:20500"},
      {with("MASTER_ADDR=h"), "slurm 2/4 local 0/2 tcp h:20500"},
      {with("MASTER_PORT=5"), "slurm 2/4 local 0/2 tcp n1:5"},
      {with("LOCKSTEP_INIT_METHOD=file:///m"), "slurm 2/4 local 0/2 file /m"},
      {with("SLURM_TASKS_PER_NODE=9 SLURM_NODELIST=other"), "slurm 2/4 local 0/2 tcp n1:20500"},
      {without("SLURM_STEP_NUM_TASKS"), "slurm 2/4 local 0/2 tcp n1:20500"},
      {without("SLURM_STEP_NODELIST") + " SLURM_NODELIST=m[7-8]", "slurm 2/4 local 0/2 tcp m7:20500"},
      {without("SLURM_STEP_TASKS_PER_NODE") + " SLURM_TASKS_PER_NODE=2,2", "slurm 2/4 local 0/2 tcp n1:20500"},
      {with_changed("SLURM_NTASKS", "16"), "slurm 2/4 local 0/2 tcp n1:20500"},
      {with_changed("SLURM_STEP_ID", "3"), "slurm 2/4 local 0/2 tcp n1:22036"},
      {with_changed("SLURM_JOB_ID", "8212"), "slurm 2/4 local 0/2 tcp n1:20500"},
      {without("SLURM_JOB_ID") + " SLURM_JOBID=21", "slurm 2/4 local 0/2 tcp n1:20501"},
      {with("SLURM_GTIDS=2,3"), "slurm 2/4 local 0/2 tcp n1:20500"},
      {with("SLURM_GTIDS=0,2 MASTER_ADDR=n2"), "slurm 2/4 local 0/2 tcp n2:20500"},
      // srun --mpi=pmi2 speaks PMI as well.
      {with("PMI_RANK=2 PMI_SIZE=4"), "slurm 2/4 local 0/2 tcp n1:20500"},
  });
}

TEST(WorldSlurm, StepsNearEachOtherHavePortsOfTheirOwn) {
  std::set<std::uint16_t> ports;
  for (int job = 123000; job < 123512; ++job) {
    for (int step = 7; step < 23; ++step) ports.insert(detail::port_of_slurm_step(job, step));
  }
  EXPECT_EQ(ports.size(), 512U * 16U);
  EXPECT_EQ(*ports.begin(), 20480);
  EXPECT_EQ(*ports.rbegin(), 28671);
  constexpr auto kHighest = std::numeric_limits<std::int64_t>::max();
  EXPECT_GE(detail::port_of_slurm_step(kHighest, kHighest), 20480);
}

TEST(WorldSlurm, StepsShareNoKeys) {
  const auto prefix = [](std::string_view step) {
    return detect_world(test::environment_of(with_changed("SLURM_STEP_ID", step)), "slurm").store_prefix;
  };
  EXPECT_EQ(prefix("0"), "/slurm/20.0");
  EXPECT_EQ(prefix("1"), "/slurm/20.1");
}

TEST(WorldSlurm, ShellsOfAnAllocationAreNotSteps) {
  expect_readings({
      {"SLURM_JOB_ID=7 SLURM_NTASKS=1 SLURM_NNODES=1", "none 0/1 local 0/1 alone"},                  // salloc
      {"SLURM_JOB_ID=7 SLURM_NTASKS=1 SLURM_PROCID=0 SLURM_LOCALID=0", "none 0/1 local 0/1 alone"},  // sbatch
      {"SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_ID=0 SLURM_LOCALID=0 SLURM_NODEID=0 "
       "SLURM_STEP_TASKS_PER_NODE=1 SLURM_STEP_NODELIST=n1 SLURM_JOB_NUM_NODES=2",
       "none 0/1 local 0/1 alone"},  // srun --pty bash
  });
  expect_refusals({
      {"SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_NNODES=1", {"SLURM_NTASKS=4", "srun", "--launcher none"}},  // salloc
      {"SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_LOCALID=0", {"SLURM_NTASKS=4", "sbatch"}},
      {"SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 SLURM_NNODES=2", {"SLURM_JOB_NUM_NODES=2", "RANK=0 WORLD_SIZE=1"}},
      {with_changed("SLURM_STEP_ID", "4294967291"), {"SLURM_NTASKS=4"}},  // sbatch
      {with_changed("SLURM_STEP_ID", "4294967290"), {"SLURM_NTASKS=4"}},  // salloc
  });
  expect_readings({{"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_ID=0 SLURM_LOCALID=0 SLURM_NODEID=0 "
                    "SLURM_STEP_TASKS_PER_NODE=1",
                    "slurm 0/1 local 0/1 alone"}},
                  "slurm");
}

TEST(WorldSlurm, RefusesHalfAndImpossibleSettings) {
  const std::vector<std::pair<std::string, std::vector<std::string_view>>> cases = {
      {without("SLURM_LOCALID"), {"SLURM_LOCALID is not", "srun sets both"}},
      {without("SLURM_NODEID"), {"SLURM_NODEID is not"}},
      {without("SLURM_STEP_TASKS_PER_NODE"), {"SLURM_STEP_TASKS_PER_NODE", "srun"}},
      {without("SLURM_STEP_NODELIST"), {"MASTER_ADDR", "SLURM_STEP_NODELIST"}},
      {with_changed("SLURM_STEP_TASKS_PER_NODE", "3(x2)"), {"SLURM_STEP_TASKS_PER_NODE='3(x2)'", "8(x2),4"}},
      {with_changed("SLURM_STEP_TASKS_PER_NODE", "4"), {"SLURM_NODEID=1"}},
      {with_changed("SLURM_STEP_TASKS_PER_NODE", "two"), {"SLURM_STEP_TASKS_PER_NODE='two'"}},
      {without("SLURM_JOB_ID"), {"SLURM_JOB_ID is not set", "srun"}},
      {with_changed("SLURM_JOB_ID", "x"), {"SLURM_JOB_ID='x'"}},
      {with("SLURM_GTIDS=0,2"), {"on the first host", "MASTER_ADDR", "arbitrary"}},
      {with_changed("SLURM_PROCID", "0"), {"on the first host", "MASTER_ADDR"}},
      {with_changed("SLURM_NODEID", "0") + " SLURM_GTIDS=1,2", {"on the first host"}},
      {with_changed("SLURM_STEP_NODELIST", "n[1-"), {"SLURM_STEP_NODELIST='n[1-'", "MASTER_ADDR"}},
      {with_changed("SLURM_LOCALID", "2"), {"SLURM_LOCALID=2", "2 tasks"}},
      {with_changed("SLURM_PROCID", "4"), {"SLURM_PROCID=4", "SLURM_STEP_NUM_TASKS=4"}},
      {with_changed("SLURM_PROCID", "x"), {"SLURM_PROCID='x'"}},
  };
  for (const auto& [text, words] : cases) expect_refusals({{text, words}});
}

}  // namespace
}  // namespace lockstep
