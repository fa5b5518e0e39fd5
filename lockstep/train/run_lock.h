// The lock of a work_dir: one run at a time writes there.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/base/unique_fd.h>
#include <lockstep/comm/group.h>
#include <lockstep/train/console.h>
#include <lockstep/world/world.h>

#include <chrono>
#include <filesystem>
#include <string>

namespace lockstep::train {

/// What the processes of one job, and of no other, have in common: the scheduler's address, or a launcher's name for
/// the job. Empty: it has none.
std::string job_identity(const World& world, const Environment& environment);

/// Held by rank 0 through an open file of which the kernel knows the owner: it ends with the process, however that
/// ends, and the file stays. On NFS the server keeps it, and a host that vanished with it loses it when its lease is
/// over.
class RunLock {
 public:
  /// `file` is made when missing. It says in words who has it, for messages.
  RunLock(std::filesystem::path file, std::string job);

  /// Rank 0 takes the lock and keeps it; who held it and is another rank now gives it back. Waits a while for a holder
  /// that is about to end, which the console says, and does without where it belongs to this job (a rank that was
  /// replaced, and hangs) or the file system has no locks, which is logged. Error(config) on all ranks, with who holds
  /// it, when another run does. A collective.
  void hold(const Group& group, Console& console);

 private:
  std::string take(std::chrono::milliseconds patience, Console& console);
  bool try_to_take();

  std::filesystem::path file_;
  std::string job_;
  UniqueFd held_;
};

}  // namespace lockstep::train
