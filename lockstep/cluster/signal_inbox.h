// Signals of this process as a descriptor to poll.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <csignal>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep::cluster {

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
