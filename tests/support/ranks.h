// Runs a test body as every rank of a job: the real processes, the real rendezvous, the real backend.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/world/world.h>

#include "support/forks.h"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::test {

struct RankOptions {
  std::chrono::milliseconds deadline = std::chrono::seconds(60);  ///< for all ranks to end
  GroupOptions group = test_group_options("tcp");
  Rendezvous rendezvous = Rendezvous::file;  ///< file, or tcp on a free port of this host
  Environment environment = {};              ///< set in every rank
  /// LOCKSTEP_HOST_ID of each rank: those with equal ones count as being on one host. Empty: all are on this one.
  std::vector<std::string> hosts = {};

  /// `backend` with time limits that suit a test; for "tls" with certificates(), which all ranks must share, so that
  /// the parent asks for them first.
  static GroupOptions test_group_options(std::string_view backend);
};

/// What the body is given.
class Rank {
 public:
  Rank(World world, GroupOptions options);

  int rank() const { return world_.rank; }
  int size() const { return world_.size; }
  const World& world() const { return world_; }
  const GroupOptions& options() const { return options_; }

  /// The group of all ranks; the first call connects.
  Group& group();

  /// Ends this process by SIGKILL, as a crash or the kernel's out-of-memory killer would.
  [[noreturn]] void kill_self() const;

 private:
  World world_;
  GroupOptions options_;
  std::optional<Group> group_;
};

using RankBody = std::function<void(Rank&)>;

/// Runs the body on n ranks; a failed assertion, an exception, a crash or a missed deadline on any of them is a failure
/// of the test that shows the rank and its output.
///
/// Started under mpirun, this process is a rank already: the body runs in it, n must be the size of the MPI world and
/// the deadline is mpirun's.
void run_ranks(int n, const RankOptions& options, const RankBody& body);

/// The same without failing the test, for bodies that end badly on purpose. Not under mpirun.
std::vector<Outcome> rank_outcomes(int n, const RankOptions& options, const RankBody& body);

/// The size of the MPI world this process was started in, nullopt when it was not started by mpirun.
std::optional<int> mpirun_size();

}  // namespace lockstep::test
