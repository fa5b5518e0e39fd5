// Rate-limited log lines about refused connections.
#pragma once

#include <lockstep/base/log.h>

#include <fmt/format.h>

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
  void note(const std::string& who, const std::string& reason, Time now) {
    tick(now);
    if (said_ == 0) since_ = now;
    if (said_ < kLines) {
      ++said_;
      log_warning("refused {}: {}", who, reason);
      if (said_ == kLines) log_warning("further refusals within a minute are only counted");
      return;
    }
    ++unsaid_;
    last_ = fmt::format("{}: {}", who, reason);
  }

  /// Writes the line at the end of a minute when it is due.
  void tick(Time now) {
    if (said_ == 0 || now - since_ < kPeriod) return;
    finish();
    said_ = 0;
  }

  /// Writes the line about refusals that are not logged yet.
  void finish() {
    if (unsaid_ > 0) log_warning("refused {} more within a minute; the last was {}", unsaid_, last_);
    unsaid_ = 0;
  }

 private:
  static constexpr std::size_t kLines = 10;
  static constexpr auto kPeriod = std::chrono::minutes(1);

  Time since_{};
  std::size_t said_ = 0;
  std::size_t unsaid_ = 0;
  std::string last_;
};

}  // namespace lockstep
