// torch.multiprocessing.spawn in C++: runs a function in several processes of this machine.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

struct SpawnOptions {
  /// The rendezvous: "tcp://host:port", "file:///path", or "env://" for MASTER_ADDR and MASTER_PORT. Empty: only the
  /// processes of this call take part, which needs no address.
  std::string init_method{};
  /// How many nodes spawn `nprocs` processes each, and which of them this one is. More than one needs an init_method.
  int nodes = 1;
  int node_rank = 0;
  /// From asking the others to end (SIGTERM) to SIGKILL.
  std::chrono::milliseconds grace = std::chrono::seconds(30);
};

/// The child processes of one call. Not thread-safe. The destructor kills those that still run.
class SpawnedProcesses {
 public:
  SpawnedProcesses(SpawnedProcesses&&) noexcept;
  SpawnedProcesses& operator=(SpawnedProcesses&&) noexcept;
  ~SpawnedProcesses();

  /// By index, also of those that have ended.
  std::vector<pid_t> pids() const;

  /// Waits for all of them, at most `limit`: true when all have ended well, false when some still run and none has
  /// failed. The first failure ends the others and is thrown, as spawn() does; that may take longer than `limit`.
  bool join(std::chrono::milliseconds limit = std::chrono::milliseconds::max());

 private:
  friend SpawnedProcesses start_processes(const std::function<void(int)>&, int, const SpawnOptions&);
  friend void spawn(const std::function<void(int)>&, int, const SpawnOptions&);
  class Impl;
  explicit SpawnedProcesses(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Runs fn(0) ... fn(nprocs - 1), each in a process of its own, and returns when all of them have ended well.
///
/// lockstep::init() in a child needs nothing else: it is rank node_rank * nprocs + index of nodes * nprocs.
///
/// The children are forks of this process: they have fn and its captures as of the call, and their changes are not
/// visible here. Forking is safe only while no other thread runs in this process, so call it early in main: before
/// computing with tensors on several threads, before init(), before any thread was started. Thread pools that
/// OpenBLAS made when it was loaded do not count. A child reads nothing from the terminal, leads a process group, ends
/// without atexit handlers and destructors of statics, and dies with this process. Where OMP_NUM_THREADS is not set and
/// there are several children, each computes with one thread.
///
/// The first child that throws, exits with another code than 0 or dies of a signal ends the others: SIGTERM, after the
/// grace period SIGKILL. Then an Error names its index, its pid, and what() of its exception, or its exit code or
/// signal; its kind is that of the child's Error, else peer_lost. SIGINT, SIGTERM, SIGHUP and SIGQUIT to this process
/// are passed on to the children (a second one kills them) and take effect here once all of them have ended.
///
/// Error(invalid_argument) for numbers out of range, and off the main thread; Error(unsupported) when other threads
/// run; Error(io) when a process cannot be made.
void spawn(const std::function<void(int)>& fn, int nprocs, const SpawnOptions& options = {});

/// The same without waiting: join() of the result waits. Signals to this process are not passed on.
SpawnedProcesses start_processes(const std::function<void(int)>& fn, int nprocs, const SpawnOptions& options = {});

}  // namespace lockstep
