#include "support/ranks.h"

#include "support/certificates.h"
#include "support/port.h"

#include <lockstep/base/error.h>
#include <lockstep/base/temporary_folder.h>

#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace lockstep::test {
namespace {

World world_of(int rank, int size) {
  World world;
  world.rank = rank;
  world.size = size;
  world.local_rank = rank;
  world.local_size = size;
  world.host = "localhost";
  world.launcher = "test";
  return world;
}

World forked_world(int size, Rendezvous rendezvous, const std::filesystem::path& folder) {
  World world = world_of(0, size);
  world.rendezvous = rendezvous;
  if (rendezvous == Rendezvous::file) world.store_path = folder / "store";
  if (rendezvous == Rendezvous::tcp) {
    world.master_addr = "127.0.0.1";
    world.master_port = reserve_port();
  }
  return world;
}

// The first of the variables that is set: Open MPI's name, then MPICH's.
std::optional<int> first_integer(std::initializer_list<const char*> names) {
  for (const auto* name : names) {
    if (const auto value = find_integer(current_environment(), name, 0, 1 << 20)) return static_cast<int>(*value);
  }
  return std::nullopt;
}

// In the rank's own process; under mpirun another test ran there before.
void be_on_host(const RankOptions& options, int rank) {
  constexpr auto kVariable = "LOCKSTEP_HOST_ID";
  if (!options.hosts.empty()) {
    ::setenv(kVariable, options.hosts.at(static_cast<std::size_t>(rank)).c_str(), 1);
  } else if (mpirun_size()) {
    ::unsetenv(kVariable);
  }
}

World mpirun_world() {
  const auto rank = first_integer({"OMPI_COMM_WORLD_RANK", "PMI_RANK"});
  if (!rank) fail(ErrorKind::environment, "run_ranks", "mpirun told the size of the world, but not this rank");
  World world = world_of(*rank, *mpirun_size());
  world.rendezvous = Rendezvous::mpi;
  return world;
}

}  // namespace

GroupOptions RankOptions::test_group_options(std::string_view backend) {
  GroupOptions options;
  options.backend = backend;
  options.start_timeout = std::chrono::seconds(30);
  options.timeout = std::chrono::seconds(30);
  if (backend == "tls") {
    options.encrypt = true;
    options.cluster.config_file_path = certificates();
  }
  return options;
}

Rank::Rank(World world, GroupOptions options) : world_(std::move(world)), options_(std::move(options)) {}

Group& Rank::group() {
  if (!group_) group_ = connect(world_, options_);
  return *group_;
}

void Rank::kill_self() const {
  ::kill(::getpid(), SIGKILL);
  ::pause();
  ::_exit(9);
}

std::optional<int> mpirun_size() { return first_integer({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}); }

std::vector<Outcome> rank_outcomes(int n, const RankOptions& options, const RankBody& body) {
  const TemporaryFolder folder("lockstep-ranks");
  World world = forked_world(n, options.rendezvous, folder.path());
  return fork_outcomes(n, {options.deadline, options.environment}, [&](int number) {
    world.rank = number;
    world.local_rank = number;
    be_on_host(options, number);
    Rank rank(world, options.group);
    body(rank);
  });
}

void run_ranks(int n, const RankOptions& options, const RankBody& body) {
  if (!mpirun_size()) return expect_all_ok(rank_outcomes(n, options, body));
  ASSERT_EQ(n, *mpirun_size()) << "this test was started by an mpirun of another size";
  const World world = mpirun_world();
  be_on_host(options, world.rank);
  Rank rank(world, options.group);
  body(rank);
}

}  // namespace lockstep::test
