// Signals of this process as something to poll.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <csignal>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep::cluster {

/// While alive, the given signals do nothing but wait to be taken here; those that the process ignores already (under
/// nohup, SIGHUP) stay ignored. The destructor puts everything back as it was. One may be made while another one lives,
/// and must go before it: what nobody has taken by then is left to the older one. On the main thread only:
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

/// While alive, writing to a reader that has gone, or beyond the largest allowed size of a file, is an error code and
/// no signal.
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
