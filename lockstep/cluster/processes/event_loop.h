// The parts of a launcher's event loop: descriptors to poll, and signals of this process as one of them.
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
  /// `ready` runs when `fd` shows one of `events`, has no writer or reader left, or is broken.
  void add(int fd, short events, std::function<void()> ready);

  /// Waits at most `limit` for the first of them, runs what is ready, in the order of `add`. Error(io) when poll fails.
  void wait(std::chrono::milliseconds limit);

 private:
  std::vector<pollfd> fds_;
  std::vector<std::function<void()>> ready_;
};

/// While it exists, the given signals only wait to be taken here; those that the process ignores already (under nohup,
/// SIGHUP) stay ignored. The destructor restores the former handling. One may be made while another one exists, and
/// must be destroyed before it: signals not taken by then are left to the older one. On the main thread only:
/// Error(invalid_argument) elsewhere.
class SignalInbox {
 public:
  explicit SignalInbox(const std::vector<int>& signals);
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;
  ~SignalInbox();

  /// Readable (poll) when `take` has something.
  int fd() const noexcept { return fd_.get(); }

  std::optional<int> take();

 private:
  UniqueFd fd_;
  sigset_t mask_before_{};
  std::vector<std::pair<int, struct sigaction>> actions_before_;
};

/// `signals`, and SIGUSR1, which a launcher always receives.
std::vector<int> with_notice_signal(std::vector<int> signals);

/// Whether the signal is a notice that the job has to end soon, as batch systems send one ahead of SIGTERM: the ranks
/// get it and may end early. That is SIGUSR1, unless it is one of the signals that end the job.
bool is_notice_signal(int signal, const std::vector<int>& ending);

/// While it exists, writing to a pipe or socket without a reader, or beyond the file size limit, gives an error code
/// and no signal.
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
