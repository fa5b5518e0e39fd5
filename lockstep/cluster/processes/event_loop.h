// The parts of a launcher's event loop: descriptors to poll, flags that other threads raise, and signals of this
// process.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <poll.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep::cluster {

/// One call of poll() for several descriptors, each with a callback for when it is ready.
class Poller {
 public:
  /// `ready` runs when `fd` shows one of `events`, has lost its last writer or reader, or is broken.
  void add(int fd, short events, std::function<void()> ready);

  /// Waits at most `limit` for the first ready descriptor, and runs the callbacks of the ready ones in the order of
  /// `add`. Error(io) when poll fails.
  void wait(std::chrono::milliseconds limit);

 private:
  std::vector<pollfd> fds_;
  std::vector<std::function<void()>> ready_;
};

/// An eventfd: readable between `raise` and `lower`.
class Flag {
 public:
  /// Error(io) when the process has no descriptors left.
  Flag();
  void raise() noexcept;
  void lower() noexcept;
  int fd() const noexcept { return fd_.get(); }

 private:
  UniqueFd fd_;
};

/// While it exists, the given signals stay pending until `take` reads them; signals that the process already ignores
/// (under nohup, SIGHUP) stay ignored. The destructor restores the former handling. An inbox may be made while another
/// one exists, and must be destroyed before it: the older one gets the signals that it did not take. On the main thread
/// only: Error(invalid_argument) elsewhere.
class SignalInbox {
 public:
  explicit SignalInbox(const std::vector<int>& signals);
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;
  ~SignalInbox();

  /// Readable (poll) when `take` has a signal to return.
  int fd() const noexcept { return fd_.get(); }

  std::optional<int> take();

 private:
  UniqueFd fd_;
  sigset_t mask_before_{};
  std::vector<std::pair<int, struct sigaction>> actions_before_;
};

/// `signals`, and SIGUSR1, which a launcher always receives.
std::vector<int> with_notice_signal(std::vector<int> signals);

/// Whether the signal is a notice that the job has to end soon, as batch systems send one before SIGTERM: the ranks get
/// it and may end early. That is SIGUSR1, unless it is one of the signals that end the job.
bool is_notice_signal(int signal, const std::vector<int>& ending);

/// While it exists, a write to a pipe or socket without a reader, or beyond the file size limit, returns an error code
/// instead of raising a signal.
class IgnoreFailedWrites {
 public:
  IgnoreFailedWrites();
  IgnoreFailedWrites(const IgnoreFailedWrites&) = delete;
  IgnoreFailedWrites& operator=(const IgnoreFailedWrites&) = delete;
  ~IgnoreFailedWrites();

 private:
  struct sigaction pipe_before_ {};
  struct sigaction size_before_ {};
};

}  // namespace lockstep::cluster
