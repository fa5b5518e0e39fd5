#include <lockstep/world/start.h>

#include <unistd.h>

#include <array>
#include <cstdlib>

#include "world/world_cases.h"

namespace lockstep {
namespace {

using test::environment_of;
using test::expect_readings;
using test::expect_refusals;

constexpr std::string_view kTorch = "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=5";
constexpr std::string_view kOpenMpi =
    "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2";
constexpr std::string_view kMpich = "PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2";
constexpr std::string_view kSlurm =
    "SLURM_JOB_ID=3 SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0 SLURM_LOCALID=0 "
    "SLURM_NODEID=0 "
    "SLURM_STEP_TASKS_PER_NODE=2 SLURM_STEP_NODELIST=n1";

std::string both(std::string_view a, std::string_view b) { return std::string(a) + " " + std::string(b); }

TEST(World, NothingMeansAlone) {
  expect_readings({{"", "none 0/1 local 0/1 alone"},
                   {"PATH=/bin HOME=/ MASTER_ADDR=h MASTER_PORT=5 LOCAL_RANK=3", "none 0/1 local 0/1 alone"}});
}

TEST(World, AutoPrefersTheInnermostLauncher) {
  const auto all = both(both(kTorch, kOpenMpi), both(kMpich, kSlurm));
  expect_readings({
      {all, "pytorch 1/2 local 1/2 tcp h:5"},
      {both(kOpenMpi, both(kMpich, kSlurm)), "open_mpi 0/2 local 0/2 mpi"},
      {both(kMpich, kSlurm), "mpich 0/2 local 0/2 mpi"},
      {kSlurm, "slurm 0/2 local 0/2 tcp n1:20483"},
  });
  EXPECT_EQ(detect_world(environment_of(both(kTorch, kOpenMpi))).evidence,
            "RANK=1 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=5, which takes precedence over open_mpi");
}

TEST(World, ANameForcesItsLauncher) {
  const auto all = both(both(kTorch, kOpenMpi), both(kMpich, kSlurm));
  expect_readings({{all, "none 0/1 local 0/1 alone"}}, "none");
  expect_readings({{all, "pytorch 1/2 local 1/2 tcp h:5"}}, "pytorch");
  expect_readings({{all, "open_mpi 0/2 local 0/2 tcp h:5"}}, "open_mpi");
  expect_readings({{all, "mpich 0/2 local 0/2 tcp h:5"}}, "mpich");
  expect_readings({{all, "slurm 0/2 local 0/2 tcp h:5"}}, "slurm");
  expect_readings({{"RANK=0", "none 0/1 local 0/1 alone"}}, "none");
}

TEST(World, ANamedLauncherMustBeThere) {
  expect_refusals({{"", {"pytorch", "RANK and WORLD_SIZE", "torchrun", "--launcher auto"}}}, "pytorch");
  expect_refusals({{kTorch, {"open_mpi", "mpirun", "OMPI_COMM_WORLD_RANK"}}}, "open_mpi");
  expect_refusals({{kTorch, {"mpich", "PMI_RANK"}}}, "mpich");
  expect_refusals({{kTorch, {"slurm", "srun", "SLURM_PROCID"}}}, "slurm");
}

TEST(World, AnUnknownNameGetsTheNearest) {
  test::expect_error(ErrorKind::invalid_argument,
                     {"'openmpi'", "did you mean 'open_mpi'?",
                      "auto, none, pytorch, mpi, open_mpi, mvapich, flux, jsm, pals, mpich, slurm, rank_table, cloud, "
                      "sagemaker, cluster_spec, tf_config, trainjob, pai, nodes, scheduler"},
                     [] { detect_world(Environment{}, "openmpi"); });
  EXPECT_EQ(launcher_names().front(), "auto");
  for (const auto& name : launcher_names()) {
    try {
      detect_world(Environment{}, name);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::environment) << error.what();
    }
  }
}

TEST(World, ManyProcessesCannotBeFewerRanks) {
  expect_refusals({
      {both("RANK=0 WORLD_SIZE=1", kOpenMpi),
       {"pytorch", "RANK=0 WORLD_SIZE=1", "open_mpi", "OMPI_COMM_WORLD_SIZE=2", "2 processes cannot be 1 rank;",
        "unset", "--launcher"}},
      {both("RANK=0 WORLD_SIZE=1", kSlurm), {"pytorch", "slurm", "SLURM_STEP_NUM_TASKS=2"}},
      {both("RANK=0 WORLD_SIZE=1", kMpich), {"pytorch", "mpich", "PMI_SIZE=2"}},
  });
  expect_readings({
      // mpirun or srun with one torchrun on each node, each of which starts several ranks.
      {both("RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 MASTER_ADDR=h MASTER_PORT=5", kOpenMpi),
       "pytorch 5/8 local 1/4 tcp h:5"},
      // `lockstep run` in the shell of sbatch -n 8.
      {both(kTorch, "SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_JOB_ID=7"), "pytorch 1/2 local 1/2 tcp h:5"},
      // What is left half set by a launcher that was not chosen does not matter.
      {both(kTorch, "PMI_RANK=0"), "pytorch 1/2 local 1/2 tcp h:5"},
  });
  expect_readings({{both("RANK=0 WORLD_SIZE=1", kOpenMpi), "pytorch 0/1 local 0/1 alone"}}, "pytorch");
}

// Of rank and size by hand, or left over in the shell.
TEST(World, VariablesByHandMustAgreeWithTheLauncherAroundThem) {
  constexpr std::string_view kSecondTask =
      "SLURM_JOB_ID=3 SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0 SLURM_LOCALID=1 "
      "SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=2 SLURM_STEP_NODELIST=n1";
  const std::string master = " MASTER_ADDR=h MASTER_PORT=5";
  expect_refusals({
      {both("RANK=0 WORLD_SIZE=2" + master, kSecondTask),
       {"pytorch (RANK=0 WORLD_SIZE=2", "contradicts slurm (SLURM_PROCID=1", "rank 1 of 2", "unset RANK"}},
      {both("RANK=0 WORLD_SIZE=4" + master, kOpenMpi), {"contradicts open_mpi", "rank 0 of 2"}},
      {both("LOCKSTEP_INIT_METHOD=tcp://h:5?rank=1&world_size=2", kMpich), {"contradicts mpich", "rank 0 of 2"}},
  });
  expect_readings({
      {both("RANK=1 WORLD_SIZE=2" + master, kSecondTask), "pytorch 1/2 local -1/0 tcp h:5"},
      // An agent gives its ranks numbers of its own.
      {both("RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1" + master, kSecondTask),
       "pytorch 0/2 local 0/1 tcp h:5"},
      {both("RANK=0 WORLD_SIZE=2" + master,
            "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_LOCAL_RANK=0 "
            "OMPI_COMM_WORLD_LOCAL_SIZE=1"),
       "pytorch 0/2 local -1/0 tcp h:5"},
  });
}

TEST(World, ALauncherInsideLockstepRunIsAnError) {
  const std::string of_run = std::string(kTorch) + " TORCHELASTIC_RUN_ID=a LOCKSTEP_STARTED_INSIDE=";
  expect_refusals({
      {both(of_run, kOpenMpi),
       {"open_mpi (OMPI_COMM_WORLD_RANK=0", "inside 'lockstep run' (RANK=1", "its 2 processes"}},
      {both(of_run + "slurm", both(kMpich, kSlurm)), {"mpich (PMI_RANK=0", "inside 'lockstep run'"}},
      {both(of_run, kSlurm), {"slurm (SLURM_PROCID=0", "inside 'lockstep run'"}},
  });
  expect_readings({
      {both(of_run + "open_mpi", kOpenMpi), "pytorch 1/2 local 1/2 tcp h:5"},
      {both(of_run + "open_mpi,slurm", both(kOpenMpi, kSlurm)), "pytorch 1/2 local 1/2 tcp h:5"},
  });
  expect_readings({{both(of_run, kOpenMpi), "open_mpi 0/2 local 0/2 tcp h:5"}}, "open_mpi");
}

TEST(World, TellsWhichLaunchersAreThereAndDoNotCount) {
  const auto outer_launchers = [](const std::string& text) {
    return detail::outer_launchers(detect_world(environment_of(text)), environment_of(text));
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(outer_launchers(std::string(kTorch)), Texts{});
  // mpirun in a Slurm job of several nodes starts its daemons with srun; a Slurm step in a shell under mpirun.
  EXPECT_EQ(outer_launchers(both(kOpenMpi, kSlurm)), Texts{"slurm (SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 step=3.0 "
                                                           "master=n1:20483)"});
  EXPECT_EQ(outer_launchers(both(kTorch, kOpenMpi)).size(), 1u);
  // Known to be around `lockstep run`.
  EXPECT_EQ(outer_launchers(both(std::string(kTorch) + " LOCKSTEP_STARTED_INSIDE=open_mpi", kOpenMpi)), Texts{});
  EXPECT_EQ(launchers_here(environment_of(both(kTorch, both(kOpenMpi, kSlurm)))),
            (Texts{"pytorch", "open_mpi", "slurm"}));
  EXPECT_EQ(launchers_here(environment_of("RANK=0 OMPI_COMM_WORLD_SIZE=3")), Texts{});
}

TEST(World, WhoSetTorchrunsVariablesHasAName) {
  const auto starter = [](const std::string& text) { return detail::starter_of_pytorch(environment_of(text)); };
  EXPECT_EQ(starter(std::string(kTorch) + " TORCHELASTIC_RUN_ID=a LOCKSTEP_STARTED_INSIDE="), "lockstep run");
  EXPECT_EQ(starter(std::string(kTorch) + " TORCHELASTIC_RUN_ID=none"), "torchrun");
  EXPECT_EQ(starter(std::string(kTorch) + " LOCKSTEP_STARTED_INSIDE="), "lockstep::spawn");
  EXPECT_EQ(starter(std::string(kTorch)), "pytorch");
}

TEST(World, DescribesItselfInOneLine) {
  World world = detect_world(environment_of(kTorch));
  world.host = "box";
  EXPECT_EQ(
      describe(world),
      "rank 1 of 2 (local 1 of 2) on host box, started by pytorch (RANK=1 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=5)");
  EXPECT_EQ(describe(detect_world(Environment{})),
            "rank 0 of 1 (local 0 of 1), started without a launcher (no launcher's variables are set)");
  EXPECT_EQ(detect_world(environment_of(kSlurm)).evidence,
            "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 step=3.0 master=n1:20483");
  EXPECT_EQ(detect_world(environment_of(kOpenMpi)).evidence, "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2");
}

TEST(World, OfThisProcessKnowsItsHost) {
  std::array<char, 256> name{};
  ASSERT_EQ(::gethostname(name.data(), name.size()), 0);
  EXPECT_EQ(detect_world("none").host, name.data());
  EXPECT_EQ(detect_world(Environment{}).host, "");
}

TEST(World, ReadsTheEnvironmentOfThisProcess) {
  for (const auto& [variable, value] : environment_of(kOpenMpi)) ::setenv(variable.c_str(), value.c_str(), 1);
  const World world = detect_world("open_mpi");
  for (const auto& [variable, value] : environment_of(kOpenMpi)) ::unsetenv(variable.c_str());
  EXPECT_EQ(world.size, 2);
  EXPECT_EQ(world.launcher, "open_mpi");
}

}  // namespace
}  // namespace lockstep
