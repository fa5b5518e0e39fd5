// Signals that ask a run to end in good order.
#pragma once

#include <csignal>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep::train {

/// While alive, SIGTERM, SIGUSR1, SIGINT and SIGHUP are only noted here, for the training loop to look at between
/// steps; a second SIGINT ends the process at once, as always. Signals whose action is not the default stay as they
/// are: under nohup, or in a program with handlers of its own. The destructor puts everything back.
///
/// Signals belong to the process, so there is at most one at a time.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  /// The first that came.
  std::optional<int> noted() const noexcept;

  /// For a process that was asked and now ends: all but SIGINT are ignored after the destructor, so that the next to
  /// ask does not change how it ends.
  void ignore_for_good() noexcept;

 private:
  std::vector<std::pair<int, struct sigaction>> before_;
};

}  // namespace lockstep::train
