// The lock of a work_dir: only one run at a time writes there.
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

/// The identity of a job, equal in its processes and in no other job: the scheduler's address, or a launcher's name for
/// the job. Empty: it has none.
std::string job_identity(const World& world, const Environment& environment);

/// Held by rank 0 as a kernel lock on an open file: it ends with the process, in whatever way that ends, and the file
/// stays. On NFS the server keeps the lock, and a lost host loses it when its lease has
/// expired.
class RunLock {
 public:
  /// `file` is made when missing. It contains a text that names the holder, for messages.
  RunLock(std::filesystem::path file, std::string job);

  /// Rank 0 takes the lock and keeps it; a process that held it and has another rank now releases it. Waits a while,
  /// with a line on the console, for a holder that is about to end. Continues without the lock where it belongs to this
  /// job (a rank that was replaced, and hangs) or the file system has no locks, which is logged. Error(config) on all
  /// ranks, naming the holder, when another run has it. A collective.
  void hold(const Group& group, Console& console);

 private:
  std::string take(std::chrono::milliseconds patience, Console& console);
  bool try_to_take();

  std::filesystem::path file_;
  std::string job_;
  UniqueFd held_;
};

}  // namespace lockstep::train
