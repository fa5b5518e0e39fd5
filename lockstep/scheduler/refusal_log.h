// Lines about connections that were refused, few however many come.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace lockstep::scheduler {

/// The first ten refusals of a minute have a line each. Of the rest one line at its end says how many there were, and
/// the last of them: whoever knocks without end does not fill the disk. Not thread-safe.
class RefusalLog {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// A warning: "refused 10.0.0.2:4711: its certificate has expired".
  void note(const std::string& who, const std::string& reason, Time now);
  /// What is due with time.
  void tick(Time now);
  /// What was not said yet.
  void finish();

 private:
  Time since_{};
  std::size_t said_ = 0;
  std::size_t unsaid_ = 0;
  std::string last_;
};

}  // namespace lockstep::scheduler
