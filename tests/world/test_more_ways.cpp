// Flux, jsrun, PALS, MVAPICH and Cray's PMI; platforms that start one container on each host; and what says "there are
// several" without saying which of them this is.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/world/detect.h>
#include <lockstep/world/start.h>

#include <fstream>

#include "world/world_cases.h"

namespace lockstep {
namespace {

using test::environment_of;
using test::expect_error;
using test::expect_readings;
using test::expect_refusals;

constexpr std::string_view kFlux =
    "FLUX_TASK_RANK=2 FLUX_JOB_SIZE=4 FLUX_TASK_LOCAL_ID=0 FLUX_JOB_NNODES=2 FLUX_JOB_ID=f8";
constexpr std::string_view kJsm =
    "JSM_NAMESPACE_RANK=2 JSM_NAMESPACE_SIZE=4 JSM_NAMESPACE_LOCAL_RANK=0 JSM_NAMESPACE_LOCAL_SIZE=2 LSB_JOBID=7";
constexpr std::string_view kPals =
    "PALS_RANKID=3 PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=2 PALS_NODEID=1 PALS_APID=a PMI_SIZE=4 PMI_RANK=3";
constexpr std::string_view kMaster = " MASTER_ADDR=h MASTER_PORT=5";

std::string with(std::string_view set, std::string_view more) {
  return std::string(set) + " " + std::string(more.substr(more.find_first_not_of(' ')));
}

TEST(WorldTasks, AreRanksOfTheirLauncher) {
  expect_readings({
      {with(kFlux, kMaster), "flux 2/4 local 0/0 tcp h:5"},
      {with(kFlux, "LOCKSTEP_INIT_METHOD=file:///m"), "flux 2/4 local 0/0 file /m"},
      {"FLUX_TASK_RANK=1 FLUX_JOB_SIZE=2 FLUX_TASK_LOCAL_ID=1 FLUX_JOB_NNODES=1 MASTER_PORT=5",
       "flux 1/2 local 1/2 tcp 127.0.0.1:5"},
      {"FLUX_TASK_RANK=0 FLUX_JOB_SIZE=1 FLUX_JOB_NNODES=1", "flux 0/1 local 0/1 alone"},
      {with(kJsm, kMaster), "jsm 2/4 local 0/2 tcp h:5"},
      {with(kJsm, "LSB_MCPU_HOSTS=batch5 MASTER_PORT=5"), "jsm 2/4 local 0/2 tcp batch5:5"},
      {with(kPals, kMaster), "pals 3/4 local 1/2 tcp h:5"},
      {"MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=2 MV2_COMM_WORLD_LOCAL_RANK=1 MV2_COMM_WORLD_LOCAL_SIZE=2",
       "mvapich 1/2 local 1/2 mpi"},
      {"PMI_RANK=3 PMI_SIZE=4 PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=2", "mpich 3/4 local 1/2 mpi"},
      // The initial program of flux alloc, and a shell of bsub.
      {"FLUX_URI=local:///x", "none 0/1 local 0/1 alone"},
      {"LSB_JOBID=7 LSB_HOSTS=a", "none 0/1 local 0/1 alone"},
  });
  expect_readings({{with(kFlux, "RANK=0 WORLD_SIZE=1" + std::string(kMaster)), "flux 2/4 local 0/0 tcp h:5"}}, "flux");
}

TEST(WorldTasks, TheFirstHostOfTheAllocationHasRank0) {
  const TemporaryFolder folder("ways");
  const auto file = (folder.path() / "hosts").string();
  std::ofstream(file) << "batch1\nc1\nc1\nc2\nc2\n";
  expect_readings({{with(kJsm, "MASTER_PORT=5 LSB_DJOB_HOSTFILE=" + file), "jsm 2/4 local 0/2 tcp c1:5"},
                   {with(kPals, "MASTER_PORT=5 PBS_NODEFILE=" + file), "pals 3/4 local 1/2 tcp batch1:5"}});
}

TEST(WorldTasks, RanksOfOneJobComputeOnePort) {
  const auto port = [](std::string_view text) { return detect_world(environment_of(text)).master_port; };
  const auto first = port(with(kFlux, "MASTER_ADDR=h"));
  EXPECT_GE(first, 20480);
  EXPECT_LT(first, 28672);
  EXPECT_EQ(first, port("FLUX_TASK_RANK=0 FLUX_JOB_SIZE=4 FLUX_JOB_NNODES=2 FLUX_JOB_ID=f8 MASTER_ADDR=h"));
  EXPECT_NE(first, port("FLUX_TASK_RANK=0 FLUX_JOB_SIZE=4 FLUX_JOB_NNODES=2 FLUX_JOB_ID=f9 MASTER_ADDR=h"));
  EXPECT_EQ(detect_world(environment_of(with(kFlux, "MASTER_ADDR=h"))).store_prefix, "/flux/f8");
}

TEST(WorldTasks, AnAddressOfIpv6HasBracketsInTheEvidence) {
  const auto world = detect_world(environment_of(with(kFlux, "MASTER_ADDR=fd00::1 MASTER_PORT=5")));
  EXPECT_EQ(world.master_addr, "fd00::1");
  EXPECT_NE(world.evidence.find("master=[fd00::1]:5"), std::string::npos) << world.evidence;
}

TEST(WorldTasks, WinOverWhatTheyInheritAndSetBeside) {
  const std::string slurm =
      "SLURM_JOB_ID=3 SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0 SLURM_LOCALID=0 "
      "SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=2 SLURM_STEP_NODELIST=n1";
  expect_readings({
      {with(kFlux, slurm + std::string(kMaster)), "flux 2/4 local 0/0 tcp h:5"},
      // A job of one task inside a Flux of two brokers under Slurm.
      {with("FLUX_TASK_RANK=0 FLUX_JOB_SIZE=1 FLUX_JOB_NNODES=1", slurm), "flux 0/1 local 0/1 alone"},
      {with(kPals, with(slurm, kMaster)), "pals 3/4 local 1/2 tcp h:5"},
  });
  const auto outer_launchers = [](const std::string& text) {
    return detail::outer_launchers(detect_world(environment_of(text)), environment_of(text));
  };
  // jsrun and PALS speak of the same ranks in the words of MPI.
  EXPECT_TRUE(outer_launchers(with(kPals, with("PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=2", kMaster))).empty());
  EXPECT_EQ(outer_launchers(with(kPals, with(slurm, kMaster))).size(), 1U);
}

TEST(WorldTasks, RefuseHalfAndImpossibleSettings) {
  expect_refusals({
      {kFlux, {"flux (FLUX_TASK_RANK=2 FLUX_JOB_SIZE=4)", "MASTER_ADDR", "flux hostlist", "file:///PATH"}},
      {kJsm, {"jsm (JSM_NAMESPACE_RANK=2", "MASTER_ADDR"}},
      {with(kPals, "PBS_NODEFILE=/none"), {"pals (PALS_RANKID=3", "MASTER_ADDR"}},
      {"FLUX_JOB_SIZE=4", {"FLUX_JOB_SIZE is set but FLUX_TASK_RANK is not"}},
      {"FLUX_TASK_RANK=4 FLUX_JOB_SIZE=4", {"FLUX_TASK_RANK=4 is not below FLUX_JOB_SIZE=4"}},
      {"JSM_NAMESPACE_RANK=1", {"JSM_NAMESPACE_RANK is set but JSM_NAMESPACE_SIZE is not"}},
      {"PALS_RANKID=1", {"PALS_RANKID is set but PMI_SIZE is not"}},
      {"PMI_RANK=3 PMI_SIZE=4 PMI_LOCAL_RANK=2 PMI_LOCAL_SIZE=2", {"PMI_LOCAL_RANK=2 is not below PMI_LOCAL_SIZE=2"}},
  });
}

// ---- platforms

std::string start_of(const Environment& environment, const std::string& launcher = "auto") {
  const Start start = detect_start(environment, {.launcher = launcher});
  return test::brief(start.world) + " x" + std::to_string(start.ranks);
}

constexpr const char* kTwoHosts = R"(["algo-1","algo-2"])";
constexpr const char* kTfConfig =
    R"({"cluster":{"chief":["c:2222"],"ps":["p:2222"],"worker":["w0:2222","w1:2222"]},"task":{"type":"worker","index":"1"}})";
constexpr const char* kClusterSpec =
    R"({"cluster":{"workerpool0":["a:2222"],"workerpool1":["b:2222","c:2222"],"workerpool2":["d:2222"]},)"
    R"("environment":"cloud","task":{"type":"workerpool1","index":0}})";

TEST(Platforms, SayWhichContainerThisIs) {
  EXPECT_EQ(start_of({{"SM_HOSTS", kTwoHosts}, {"SM_CURRENT_HOST", "algo-2"}, {"SM_NUM_GPUS", "4"}}),
            "sagemaker 4/8 local 0/4 tcp algo-1:6060 x4");
  EXPECT_EQ(start_of({{"SM_HOSTS", kTwoHosts}, {"SM_CURRENT_HOST", "algo-1"}, {"SM_NUM_GPUS", "0"}}),
            "sagemaker 0/2 local 0/1 tcp algo-1:6060 x1");
  EXPECT_EQ(start_of({{"SM_HOSTS", R"(["algo-1"])"}, {"SM_CURRENT_HOST", "algo-1"}, {"SM_NUM_GPUS", "4"}}),
            "none 0/1 local 0/1 alone x1");
  EXPECT_EQ(start_of({{"TF_CONFIG", kTfConfig}}), "tf_config 2/3 local 0/1 tcp c:6060 x1");
  EXPECT_EQ(start_of({{"TF_CONFIG", kTfConfig}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "5"}}),
            "tf_config 2/3 local 0/1 tcp h:5 x1");
  EXPECT_EQ(start_of({{"TF_CONFIG", R"({"cluster":{"worker":["localhost:1","localhost:2"]},)"
                                    R"("task":{"type":"worker","index":1}})"}}),
            "tf_config 1/2 local 1/2 tcp localhost:6060 x1");
  EXPECT_EQ(start_of({{"TF_CONFIG", R"({"cluster":{"chief":["c:1"]},"task":{"type":"chief","index":0}})"}}),
            "none 0/1 local 0/1 alone x1");
  EXPECT_EQ(start_of({{"CLUSTER_SPEC", kClusterSpec}, {"TF_CONFIG", kTfConfig}}),
            "cluster_spec 1/3 local 0/1 tcp a:6060 x1");
  EXPECT_EQ(start_of({{"CLUSTER_SPEC", kClusterSpec}, {"TF_CONFIG", kTfConfig}}, "tf_config"),
            "tf_config 2/3 local 0/1 tcp c:6060 x1");
  // Kubeflow's TrainJob.
  EXPECT_EQ(start_of(environment_of("PET_NNODES=2 PET_NPROC_PER_NODE=2 PET_NODE_RANK=1 "
                                    "PET_MASTER_ADDR=j-node-0-0.j PET_MASTER_PORT=29500")),
            "trainjob 2/4 local 0/2 tcp j-node-0-0.j:29500 x2");
  EXPECT_EQ(start_of(environment_of("PET_NNODES=1 PET_NODE_RANK=0")), "trainjob 0/1 local 0/1 alone x1");
  // PAI DLC: its RANK and WORLD_SIZE count nodes.
  EXPECT_EQ(start_of(environment_of("NPROC_PER_NODE=2 RANK=1 WORLD_SIZE=2 MASTER_ADDR=m-0 MASTER_PORT=23456")),
            "pai 2/4 local 0/2 tcp m-0:23456 x2");
  EXPECT_EQ(start_of(environment_of("NPROC_PER_NODE=2 RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 "
                                    "MASTER_ADDR=m-0 MASTER_PORT=23456")),
            "pytorch 1/2 local 1/2 tcp m-0:23456 x1");
  // Volcano: both names of the index, and the group's hosts.
  EXPECT_EQ(start_of(environment_of("VK_TASK_INDEX=1 VC_TASK_INDEX=1 VC_TRAINER_HOSTS=a,b,c VC_TRAINER_NUM=3")),
            "cloud 1/3 local 0/1 tcp a:6060 x1");
  EXPECT_EQ(start_of(environment_of("VK_TASK_INDEX=0 VC_WORKER_HOSTS=a,b")), "cloud 0/2 local 0/1 tcp a:6060 x1");
}

TEST(Platforms, RefuseWhatContradictsItself) {
  const auto refuse = [](const Environment& environment, std::initializer_list<std::string_view> words) {
    expect_error(ErrorKind::environment, words, [&] { detect_start(environment, {}); });
  };
  refuse({{"SM_HOSTS", kTwoHosts}, {"SM_CURRENT_HOST", "x"}}, {"SM_HOSTS", "SM_CURRENT_HOST='x'"});
  refuse({{"SM_HOSTS", "algo-1"}}, {"SM_HOSTS='algo-1' cannot be read", "unset it"});
  refuse({{"TF_CONFIG", "{"}}, {"TF_CONFIG='{' cannot be read"});
  refuse({{"TF_CONFIG", R"({"cluster":{"worker":["a:1","b:1"]}})"}}, {"TF_CONFIG", "it has no \"task\""});
  refuse({{"TF_CONFIG", R"({"cluster":{"ps":["p:1"],"worker":["a:1","b:1"]},"task":{"type":"ps","index":0}})"}},
         {"task ps 0", "is no rank", "chief, master and worker"});
  refuse({{"TF_CONFIG", R"({"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":2}})"}},
         {"task worker 2", "not among the tasks"});
  refuse(environment_of("PET_NNODES=2 PET_NODE_RANK=2"), {"PET_NODE_RANK=2 is not below PET_NNODES=2"});
  refuse(environment_of("PET_NNODES=2 PET_NODE_RANK=0"), {"PET_MASTER_ADDR and PET_MASTER_PORT"});
  refuse(environment_of("PET_NNODES=2 PET_NODE_RANK=0 PET_NPROC_PER_NODE=auto"), {"PET_NPROC_PER_NODE=auto"});
  refuse(environment_of("VK_TASK_INDEX=0"), {"VK_TASK_INDEX is set but MA_NUM_HOSTS is not", "VC_WORKER_HOSTS"});
  refuse(environment_of("VK_TASK_INDEX=0 VC_MASTER_HOSTS=a VC_WORKER_HOSTS=b,c"),
         {"2 groups of tasks", "VC_MASTER_HOSTS", "set RANK"});
  // Separate jobs of one rank each, where there are several hosts.
  Environment one_rank = environment_of("RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1");
  one_rank.insert({{"SM_HOSTS", kTwoHosts}, {"SM_CURRENT_HOST", "algo-2"}});
  refuse(one_rank, {"contradicts sagemaker", "2 processes cannot be 1 rank"});
}

// ---- several, and no word of which

TEST(LoneProcess, IsRefusedWhereThereAreSeveral) {
  const TemporaryFolder folder("lone");
  const auto file = [&](const std::string& name, std::string_view text) {
    std::ofstream(folder.path() / name) << text;
    return (folder.path() / name).string();
  };
  const auto refuse = [](const Environment& environment, std::initializer_list<std::string_view> words) {
    const auto error = expect_error(ErrorKind::environment, words, [&] { detect_world(environment); });
    if (error) test::expect_words(error->what(), {"--launcher none", "RANK=0 WORLD_SIZE=1"});
    EXPECT_EQ(detect_world(environment, "none").size, 1);
    Environment by_hand = environment;
    by_hand.insert({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
    EXPECT_EQ(detect_world(by_hand).size, 1);
  };
  refuse(environment_of("SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2"), {"SLURM_JOB_NUM_NODES=2", "srun"});
  refuse(environment_of("PMIX_RANK=1 PMIX_NAMESPACE=n PMIX_SERVER_URI41=u"), {"PMIX_RANK=1", "mpirun"});
  refuse({{"PBS_NODEFILE", file("pbs", "n1\nn2\n")}}, {"PBS", "2 hosts (n1, n2)", "lockstep run --hosts auto"});
  refuse({{"LSB_MCPU_HOSTS", "a 4 b 4 c 4"}}, {"LSF", "3 hosts (a, b, ...)"});
  refuse({{"LSB_DJOB_HOSTFILE", file("lsf", "login1\na\nb\n")}}, {"LSF", "2 hosts (a, b)"});
  refuse({{"PE_HOSTFILE", file("sge", "n1 4 q <NULL>\nn2 4 q <NULL>\n")}}, {"SGE", "2 hosts (n1, n2)"});
  refuse(environment_of("AZ_BATCH_NODE_LIST=10.0.0.1;10.0.0.2"),
         {"AZ_BATCH_NODE_LIST=10.0.0.1;10.0.0.2", "--nodes 10.0.0.1,10.0.0.2"});
  refuse(environment_of("AZ_BATCH_HOST_LIST=10.0.0.1,10.0.0.2"), {"AZ_BATCH_HOST_LIST", "2 nodes"});
  refuse(environment_of("AWS_BATCH_JOB_NUM_NODES=2 AWS_BATCH_JOB_NODE_INDEX=1"), {"AWS_BATCH_JOB_NUM_NODES=2"});
  refuse(environment_of("PET_NNODES=1:3"), {"PET_NNODES=1:3", "lockstep run"});
}

TEST(LoneProcess, IsRightWhereNothingSaysThatThereAreSeveral) {
  const TemporaryFolder folder("lone");
  const auto file = (folder.path() / "one").string();
  std::ofstream(file) << "n1\nn1\nn1\n";
  for (const auto& text :
       {"PBS_NODEFILE=" + file, std::string("PBS_NODEFILE=/none"), std::string("LSB_HOSTS=a"),
        std::string("PMIX_RANK=1"), std::string("SLURM_JOB_ID=7 SLURM_NTASKS=1 SLURM_JOB_NUM_NODES=1"),
        std::string("AZ_BATCH_NODE_LIST=10.0.0.1"), std::string("AWS_BATCH_JOB_NUM_NODES=1"),
        std::string("PET_NNODES=1 PET_NPROC_PER_NODE=4"), std::string("SLURM_ARRAY_TASK_ID=3 PBS_ARRAY_INDEX=2")}) {
    expect_readings({{text, "none 0/1 local 0/1 alone"}});
  }
}

// ---- Kubernetes' variables of a Service

TEST(ServiceVariables, AreNobodysPort) {
  expect_readings({
      {"MS_SCHED_PORT=tcp://10.0.0.1:80", "none 0/1 local 0/1 alone"},
      {"MASTER_PORT=tcp://10.0.0.1:80 VC_TASK_INDEX=0 VC_WORKER_HOSTS=a,b MA_NUM_HOSTS=2",
       "cloud 0/2 local 0/1 tcp a:6060"},
  });
  expect_refusals({
      {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=tcp://10.0.0.1:80",
       {"MASTER_PORT is not set", "MASTER_PORT=tcp://10.0.0.1:80 is Kubernetes' own, of a Service named 'master'"}},
      {"MS_ROLE=MS_WORKER MS_WORKER_NUM=2 MS_SCHED_HOST=h MS_SCHED_PORT=tcp://10.0.0.1:80",
       {"set MS_SCHED_PORT", "of a Service named 'ms-sched'"}},
  });
}

}  // namespace
}  // namespace lockstep
