// Counts of the cases in which a reader of files did not do what a user may expect, with the first example.
#pragma once

#include <lockstep/base/log.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

/// Writes one line about the read data to the log; HeardReports also collects warnings.
void report_line(LogLevel level, std::string_view line);

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

/// Counts by kind; each kind is one line of the log. Not thread-safe.
class CountedRemarks {
 public:
  /// `kind` follows a number, e.g. "hidden files are passed over".
  void add(LogLevel level, std::string_view kind, std::string_view example);

  /// "WHAT: 3 hidden files are passed over; the first is ._a.jpg", in the order of the first occurrence of each kind.
  void report(std::string_view what) const;

  std::int64_t count_of(std::string_view kind) const;

 private:
  struct Kind {
    LogLevel level;
    std::string text;
    std::string first;
    std::int64_t count = 0;
  };
  std::vector<Kind> kinds_;
};

}  // namespace lockstep::data
