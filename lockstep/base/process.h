// Child processes held by pidfd: signals and waits can never reach another process that got the same pid.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/base/unique_fd.h>

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// The end of a process: by `exit` with a code, or by a signal.
struct ExitStatus {
  int code = 0;
  int signal = 0;  ///< 0 when it exited by itself

  bool ok() const noexcept { return code == 0 && signal == 0; }
  bool operator==(const ExitStatus&) const = default;
};

/// "exit code 3" or "signal 9 (SIGKILL)".
std::string describe(const ExitStatus& status);

/// "SIGKILL" for 9; "signal 99" for a number without a name.
std::string signal_name(int signal);

enum class ChildStream { inherit, pipe, discard };

struct ChildOptions {
  /// The program and its arguments; a program without '/' is looked up in the PATH the child will have. No shell.
  std::vector<std::string> arguments{};
  std::optional<Environment> environment{};   ///< the child's complete environment; nullopt: this process's
  std::filesystem::path working_directory{};  ///< empty: this process's
  ChildStream out = ChildStream::inherit;
  ChildStream err = ChildStream::inherit;
  /// The child gets SIGKILL when the thread that spawned it ends, so spawn it from a thread that lives as long as the
  /// child has to.
  bool dies_with_parent = true;
  /// Descriptors that the child inherits with their numbers although they are marked close-on-exec.
  std::vector<int> kept_descriptors{};
};

/// A process that already runs: leader of its own process group, and a child of this process, or about to become one
/// because its parent ends (this process is the subreaper).
struct RunningChild {
  pid_t pid = -1;
  UniqueFd pidfd{};
  UniqueFd out{};  ///< read ends of its streams, or closed
  UniqueFd err{};
};

/// A running or ended child, leader of its own process group; stdin is /dev/null, and close-on-exec descriptors are not
/// inherited. The destructor kills the whole group and reaps the child. Not thread-safe.
class Child {
 public:
  /// Error(invalid_argument) naming the program when it does not exist or is not executable; Error(io) when it cannot
  /// be started.
  explicit Child(const ChildOptions& options);
  /// Takes over a process that was started in another way.
  explicit Child(RunningChild running) noexcept;
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  pid_t pid() const noexcept { return pid_; }

  /// Readable (poll) once the child has ended.
  int end_fd() const noexcept { return pidfd_.get(); }

  /// Read ends of the child's streams; closed unless ChildStream::pipe was set.
  UniqueFd& out() noexcept { return out_; }
  UniqueFd& err() noexcept { return err_; }

  /// The exit status; nullopt while the child runs.
  std::optional<ExitStatus> poll();

  /// Waits until the child has ended, at most `limit`; nullopt when it still runs.
  std::optional<ExitStatus> wait_for(std::chrono::milliseconds limit);

  /// Sends `signal` to the child and all of its process group, also after the child itself has ended.
  void signal_group(int signal);

  /// Sends SIGTERM to the group, waits up to `grace` for the child to end, then sends SIGKILL to the remaining
  /// processes of the group.
  ExitStatus stop(std::chrono::milliseconds grace);

 private:
  void kill_and_reap() noexcept;

  pid_t pid_ = -1;
  UniqueFd pidfd_;
  UniqueFd out_;
  UniqueFd err_;
  std::optional<ExitStatus> status_;
};

/// The exit status and the output of a finished program.
struct Captured {
  ExitStatus status;
  std::string out;
  std::string err;
};

/// Runs a program to its end and collects both streams. When it takes longer than `limit`, it is killed: Error(timeout)
/// with the output so far, and with what each of its processes waited for.
Captured run_and_capture(ChildOptions options, std::chrono::milliseconds limit);

namespace detail {

/// Starts a process: fork, set-up, exec. Returns once the program runs. On failure, throws the errors of Child's
/// constructor and releases all resources.
RunningChild spawn(const ChildOptions& options);

/// The file of a program: `name` itself if it contains a '/', else the first executable file of that name in the PATH
/// of `environment`. Error(invalid_argument) when no such file exists.
std::string find_program(const std::string& name, const Environment& environment);

}  // namespace detail

}  // namespace lockstep
