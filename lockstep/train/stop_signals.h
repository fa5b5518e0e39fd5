// Stop signals: signals that request a graceful end of a run.
#pragma once

#include <csignal>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep::train {

/// While it exists, SIGTERM, SIGUSR1, SIGINT and SIGHUP are only recorded here; the training loop reads them between
/// steps; a second SIGINT ends the process at once, as always. Signals whose action is not the default are not changed:
/// under nohup, or in a program with its own handlers. SIGPIPE, which would end the run when the console is a closed
/// pipe, is ignored. The destructor restores the former actions.
///
/// Signals belong to the process, so there is at most one at a time.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  /// The first signal that arrived.
  std::optional<int> noted() const noexcept;

  /// For a process that received a signal and now ends: all signals except SIGINT are ignored after the destructor, so
  /// that a further signal does not change the exit status.
  void ignore_for_good() noexcept;

 private:
  std::vector<std::pair<int, struct sigaction>> before_;
};

}  // namespace lockstep::train
