// Rate-limited log lines about refused connections.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace lockstep {

/// Each of the first ten refusals of a minute gets a line. One line at the end of the minute gives the number of the
/// other refusals and the last of them. A client that connects endlessly therefore does not fill the disk. Not
/// thread-safe.
class RefusalLog {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Logs a warning: "refused 10.0.0.2:4711: its certificate has expired".
  void note(const std::string& who, const std::string& reason, Time now);
  /// Writes the line at the end of a minute when it is due.
  void tick(Time now);
  /// Writes the line about refusals that are not logged yet.
  void finish();

 private:
  Time since_{};
  std::size_t said_ = 0;
  std::size_t unsaid_ = 0;
  std::string last_;
};

}  // namespace lockstep
