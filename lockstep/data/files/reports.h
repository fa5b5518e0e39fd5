// The receivers of what readers of files report (items.h): repeated lines are dropped, warnings are collected, and so
// are the errors of unusable items, for a check of data.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/data/files/items.h>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

/// While it exists, repeated reports of readers on this thread are dropped: a command may load the same data for its
/// model and for its samples. A nested object has no effect.
class ReportsOnce {
 public:
  /// `silent`: drops all reports, because another rank reads the same files and reports them.
  explicit ReportsOnce(bool silent = false);
  /// For a thread on which another thread waits: uses the object of the waiting thread, if there is one.
  explicit ReportsOnce(ReportsOnce* of_waiting);
  ~ReportsOnce();
  ReportsOnce(const ReportsOnce&) = delete;
  ReportsOnce& operator=(const ReportsOnce&) = delete;

  /// The object of this thread; nullptr: none.
  static ReportsOnce* current();
  /// Whether the line must be reported now; always true without such an object.
  static bool is_due(std::string_view line);

 private:
  bool silent_ = false;
  bool is_current_ = false;
  std::set<std::string, std::less<>> said_;
};

/// Collects the warnings that readers on this thread report while it exists: a run shows them on its console, because
/// its log is a file.
class HeardReports {
 public:
  HeardReports();
  ~HeardReports();
  HeardReports(const HeardReports&) = delete;
  HeardReports& operator=(const HeardReports&) = delete;

  const std::vector<std::string>& lines() const { return lines_; }

 private:
  friend void report_line(LogLevel level, std::string_view line);

  HeardReports* outer_;
  std::vector<std::string> lines_;
};

/// While it exists, it collects the errors with which readers on this thread would end a run: they leave such items
/// out, whatever the value of `on_error`. For a check that reports all of them.
class BadItemsTaken {
 public:
  BadItemsTaken();
  ~BadItemsTaken();
  BadItemsTaken(const BadItemsTaken&) = delete;
  BadItemsTaken& operator=(const BadItemsTaken&) = delete;

  std::int64_t count() const { return count_; }
  /// The object of this thread; nullptr: none.
  static BadItemsTaken* current();
  void take(const Error& error);
  /// The errors of the first items.
  const std::vector<std::string>& first() const { return first_; }

 private:
  BadItemsTaken* outer_;
  std::int64_t count_ = 0;
  std::vector<std::string> first_;
};

}  // namespace lockstep::data
