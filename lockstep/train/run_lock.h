// The lock of a run's folders: only one run at a time writes there.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/base/unique_fd.h>
#include <lockstep/comm/group.h>
#include <lockstep/train/output/console.h>
#include <lockstep/world/world.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::train {

/// The identity of a job, equal in its processes and in no other job: the scheduler's address, or a launcher's name for
/// the job. Empty: the job has no identity.
std::string job_identity(const World& world, const Environment& environment);

/// A folder that one run at a time writes to, and the key that names it.
struct LockedFolder {
  std::filesystem::path path;
  std::string key;
};

/// Held by rank 0 as kernel locks on open files, `lock` in each folder: they are released when the process ends, in any
/// way, and the files remain. On NFS the server keeps a lock, and releases the lock of a lost host when its lease
/// expires.
class RunLock {
 public:
  /// Missing files and folders are made. A file contains a text that names the holder, for messages.
  RunLock(std::vector<LockedFolder> folders, std::string job);

  /// Rank 0 takes the locks and keeps them; a process that held them and now has another rank releases them. Waits for
  /// a limited time, with a line on the console, for a holder that is about to end. Continues without a lock if the
  /// holder belongs to this job (a replaced rank that hangs) or the file system has no locks; this is logged.
  /// Error(config) on all ranks, naming the holder, when another run has one. Error(io) or Error(config), naming the
  /// key, for a folder or file that cannot be made; with `goes_on` that is logged. A collective.
  void hold(const Group& group, Console& console, bool goes_on);

 private:
  struct Held {
    LockedFolder folder;
    UniqueFd file;
  };

  struct Refusal {
    std::string key, why;  // empty: there is none
  };

  Refusal take_all(std::chrono::milliseconds patience, Console& console, bool goes_on);
  std::string take(Held& lock, std::chrono::milliseconds patience, Console& console);
  bool try_to_take(Held& lock);
  bool is_held(const UniqueFd& file) const;

  std::vector<Held> locks_;
  std::string job_;
};

}  // namespace lockstep::train
