#include "world/world_cases.h"

namespace lockstep {
namespace {

using test::expect_readings;
using test::expect_refusals;

constexpr std::string_view kTwoOfFour =
    "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2";

std::string of_four(std::string_view more) { return std::string(kTwoOfFour) + " " + std::string(more); }

TEST(WorldOpenMpi, ReadsWhatMpirunSets) {
  expect_readings({
      {kTwoOfFour, "open_mpi 2/4 local 0/2 mpi"},
      {of_four("MASTER_ADDR=h MASTER_PORT=5"), "open_mpi 2/4 local 0/2 tcp h:5"},
      {of_four("LOCKSTEP_INIT_METHOD=file:///m"), "open_mpi 2/4 local 0/2 file /m"},
      {of_four("LOCKSTEP_INIT_METHOD=env://"), "open_mpi 2/4 local 0/2 mpi"},
      {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1",
       "open_mpi 0/1 local 0/1 alone"},
  });
}

TEST(WorldOpenMpi, RefusesHalfAndImpossibleSettings) {
  expect_refusals({
      {"OMPI_COMM_WORLD_RANK=0", {"OMPI_COMM_WORLD_RANK is set", "OMPI_COMM_WORLD_SIZE is not"}},
      {"OMPI_COMM_WORLD_SIZE=2", {"OMPI_COMM_WORLD_SIZE is set", "OMPI_COMM_WORLD_RANK is not"}},
      {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2", {"OMPI_COMM_WORLD_LOCAL_RANK", "mpirun sets all four"}},
      {"OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=2", {"OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=2"}},
      {of_four("MASTER_ADDR=h"), {"MASTER_ADDR is set", "MASTER_PORT is not", "for one through MPI"}},
      {of_four("MASTER_PORT=5"), {"MASTER_PORT is set", "MASTER_ADDR is not"}},
      {of_four("MASTER_ADDR=h MASTER_PORT=x"), {"MASTER_PORT='x'"}},
  });
}

TEST(WorldMpich, ReadsWhatHydraSets) {
  expect_readings({
      {"PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2", "mpich 3/4 local 1/2 mpi"},
      {"PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 MASTER_ADDR=h MASTER_PORT=5",
       "mpich 3/4 local 1/2 tcp h:5"},
      {"PMI_RANK=0 PMI_SIZE=1", "mpich 0/1 local 0/1 alone"},
  });
  expect_refusals({
      {"PMI_RANK=3", {"PMI_RANK is set", "PMI_SIZE is not"}},
      {"PMI_RANK=3 PMI_SIZE=3", {"PMI_RANK=3", "PMI_SIZE=3"}},
      {"PMI_RANK=1 PMI_SIZE=3", {"MPI_LOCALRANKID", "mpiexec sets all four"}},
      {"PMI_RANK=1 PMI_SIZE=3 MPI_LOCALRANKID=4 MPI_LOCALNRANKS=2", {"MPI_LOCALRANKID=4", "MPI_LOCALNRANKS=2"}},
  });
}

TEST(WorldMpi, IsEitherOfThem) {
  expect_readings({{kTwoOfFour, "open_mpi 2/4 local 0/2 mpi"},
                   {"PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2", "mpich 3/4 local 1/2 mpi"}},
                  "mpi");
  expect_refusals({{"RANK=0 WORLD_SIZE=1", {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "mpirun", "--launcher auto"}}}, "mpi");
}

}  // namespace
}  // namespace lockstep
