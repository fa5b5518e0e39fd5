// The end of a job's ranks: decides when they get which signal. Pure: uses no process and no clock.
#pragma once

#include <chrono>
#include <optional>

namespace lockstep::cluster {

struct EndingPolicy {
  /// From the request to end (SIGTERM, or the signal the user sent) to SIGKILL.
  std::chrono::milliseconds grace = std::chrono::seconds(30);
  /// From a rank's failure to the request to the other ranks: time for them to report why they fail, if they do.
  std::chrono::milliseconds settle = std::chrono::milliseconds(300);
  /// From SIGKILL until the launcher gives up on processes of the ranks that the kernel does not end.
  std::chrono::milliseconds after_kill = std::chrono::seconds(5);
};

/// The course of one job's end. Each event returns the signal that all ranks' process groups must get now, if any.
///
///   running --a rank fails--> settling --settle--> asked (SIGTERM) --grace--> killed (SIGKILL)
///   running, settling --user's signal--> asked (that signal); asked --another signal--> killed
class Ending {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit Ending(EndingPolicy policy) : policy_(policy) {}

  void rank_failed(Time now);
  std::optional<int> user_signal(int signal, Time now);
  /// All ranks have ended by themselves; processes that they left running get a signal to end.
  std::optional<int> ranks_ended(Time now);
  /// The ranks have to end although none of them failed.
  std::optional<int> stop(Time now) { return ranks_ended(now); }
  std::optional<int> tick(Time now);

  /// The time at which `tick` is next due; nullopt: nothing is planned.
  std::optional<Time> deadline() const { return deadline_; }

  /// The user's signal that ended a job without a failure.
  std::optional<int> interrupted_by() const { return interrupted_by_; }

  /// Whether processes still ran at the time limit after SIGKILL.
  bool gave_up() const { return gave_up_; }

 private:
  enum class Stage { running, settling, asked, killed };

  std::optional<int> ask(int signal, Time now);
  std::optional<int> kill(Time now);

  EndingPolicy policy_;
  Stage stage_ = Stage::running;
  std::optional<Time> deadline_;
  std::optional<int> interrupted_by_;
  bool gave_up_ = false;
};

}  // namespace lockstep::cluster
