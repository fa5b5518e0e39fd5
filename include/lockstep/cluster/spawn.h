// torch.multiprocessing.spawn in C++: runs a function in several processes of this machine.
#pragma once

#include <lockstep/base/environment.h>

#include <sys/types.h>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct SpawnOptions {
  /// The rendezvous: "tcp://host:port", "file:///path", or "env://" for MASTER_ADDR and MASTER_PORT. Empty: only the
  /// processes of this call take part, which needs no address.
  std::string init_method{};
  /// The number of nodes that spawn `nprocs` processes each, and the index of this node. More than one node requires an
  /// init_method.
  int nodes = 1;
  int node_rank = 0;
  /// The time between SIGTERM, which requests the end of the other processes, and SIGKILL.
  std::chrono::milliseconds grace = std::chrono::seconds(30);
};

/// The command line of a program that spawns its ranks.
struct SpawnArguments {
  int nprocs = 1;
  SpawnOptions options;
  std::vector<std::string> rest;  ///< arguments that are not in the list below, in their order
};

/// Reads the arguments that PyTorch's example of mp.spawn takes, as `--name VALUE` or `--name=VALUE`, with '-' or '_':
///
///     --nprocs N         processes of this node (also --nproc_per_node)
///     --world_size N     nodes
///     --rank N           this node's number, from 0
///     --init_method URL  as SpawnOptions::init_method
///
/// Platforms add other arguments: they are left in `rest`, for the program to read or to ignore.
/// Error(invalid_argument) for a value that is missing, not a number or out of range, for a rank that is not below the
/// world size, and for several nodes without an init_method. Thread-safe.
SpawnArguments spawn_arguments(int argc, const char* const* argv);

/// The child processes of one call of start_processes(). Not thread-safe. The destructor kills those that still run.
class SpawnedProcesses {
 public:
  SpawnedProcesses(SpawnedProcesses&&) noexcept;
  SpawnedProcesses& operator=(SpawnedProcesses&&) noexcept;
  ~SpawnedProcesses();

  /// Process ids by index, including children that have ended.
  std::vector<pid_t> pids() const;

  /// Waits for all children, at most `limit`: true when all have exited successfully, false when some still run and
  /// none has failed. On the first failure the other children are ended and an Error is thrown, as in spawn(); that may
  /// take longer than `limit`.
  bool join(std::chrono::milliseconds limit = std::chrono::milliseconds::max());

 private:
  friend SpawnedProcesses start_processes(const std::function<void(int)>&, int, const SpawnOptions&);
  friend void spawn(const std::function<void(int)>&, int, const SpawnOptions&);
  class Impl;
  explicit SpawnedProcesses(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Runs fn(0) ... fn(nprocs - 1), each in a separate process, and returns when all of them have exited successfully.
///
/// lockstep::init() in a child needs no further settings: the child is rank node_rank * nprocs + index of nodes *
/// nprocs.
///
/// The children are forks of this process: they have fn and its captures as they are at the call, and the changes that
/// children make are not visible in this process. Forking is safe only while no other thread runs in this process, so
/// call it early in main: before computing with tensors on several threads, before init(), before any thread was
/// started. Thread pools that OpenBLAS started when it was loaded are allowed. A child reads nothing from the terminal,
/// leads a process group, exits without atexit handlers and destructors of statics, and is killed when this process
/// ends. Where OMP_NUM_THREADS is not set and there are several children, each computes with one thread.
///
/// When the first child throws, exits with a code other than 0 or is killed by a signal, the other children are ended:
/// SIGTERM, after the grace period SIGKILL. Then an Error is thrown that names the child's index, its pid, and what()
/// of its exception, or its exit code or signal. The kind of the Error is that of the child's Error, otherwise
/// peer_lost. SIGINT, SIGTERM, SIGHUP and SIGQUIT to this process are passed on to the children (a second one kills
/// them) and take effect in this process once all children have ended.
///
/// Error(invalid_argument) for numbers out of range, and off the main thread; Error(unsupported) when other threads
/// run; Error(io) when a process cannot be created.
void spawn(const std::function<void(int)>& fn, int nprocs, const SpawnOptions& options = {});

/// The same without waiting: join() of the result waits. Signals to this process are not passed on.
SpawnedProcesses start_processes(const std::function<void(int)>& fn, int nprocs, const SpawnOptions& options = {});

}  // namespace lockstep

namespace lockstep::cluster {

// The report of a rank's failure to its launcher, through torchrun's error file.

/// Writes why this process fails to the file that TORCHELASTIC_ERROR_FILE in `environment` names, if any; a later call
/// replaces the earlier report. Not thread-safe. Best effort, without errors: the program is about to fail already. For
/// the `main` of any program under `lockstep run`:
///
///     catch (const std::exception& error) {
///       lockstep::cluster::report_failure(error);
///       fmt::print(stderr, "{}\n", error.what());
///       return 1;
///     }
void report_failure(const std::exception& error, const Environment& environment = current_environment()) noexcept;

/// The same for a message and the name of its error kind.
void report_failure(std::string_view message, std::string_view kind,
                    const Environment& environment = current_environment()) noexcept;

}  // namespace lockstep::cluster
