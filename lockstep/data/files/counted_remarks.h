// What a reader of files did otherwise than a user may think: how often, with the first example.
#pragma once

#include <lockstep/base/log.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

/// One line of the log about what was read; warnings are also heard by HeardReports.
void report_line(LogLevel level, std::string_view line);

/// While it lives, what readers on this thread report a second time is not said again: a command may load the same data
/// for its model and for its samples. One within another does nothing.
class ReportsOnce {
 public:
  /// `silent`: nothing is said at all, as another rank reads the same files and says it.
  explicit ReportsOnce(bool silent = false);
  /// For a thread that another one waits for: that one's, unless it has none.
  explicit ReportsOnce(ReportsOnce* of_waiting);
  ~ReportsOnce();
  ReportsOnce(const ReportsOnce&) = delete;
  ReportsOnce& operator=(const ReportsOnce&) = delete;

  /// That of this thread; nullptr: none.
  static ReportsOnce* current();
  /// Whether the line is to be said now; without one of these always.
  static bool is_due(std::string_view line);

 private:
  bool silent_ = false;
  bool is_current_ = false;
  std::set<std::string, std::less<>> said_;
};

/// Has, of the time while it lives, the warnings that readers on this thread reported: a run shows them on its console,
/// as its log is a file.
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

  /// "WHAT: 3 hidden files are passed over; the first is ._a.jpg", in the order in which the kinds came first.
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
