// Counts of unexpected actions of readers, and the warnings that a run repeats on its console.
#include <lockstep/data/files/counted_remarks.h>
#include <lockstep/data/files/items.h>

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::data {
namespace {

thread_local HeardReports* heard_by = nullptr;
thread_local ReportsOnce* once_by = nullptr;

}  // namespace

ReportsOnce::ReportsOnce(bool silent) : silent_(silent), is_current_(once_by == nullptr) {
  if (is_current_) once_by = this;
}

ReportsOnce::ReportsOnce(ReportsOnce* of_waiting) : is_current_(once_by == nullptr) {
  if (is_current_) once_by = of_waiting;
}

ReportsOnce::~ReportsOnce() {
  if (is_current_) once_by = nullptr;
}

ReportsOnce* ReportsOnce::current() { return once_by; }

bool ReportsOnce::is_due(std::string_view line) {
  return once_by == nullptr || (!once_by->silent_ && once_by->said_.emplace(line).second);
}

HeardReports::HeardReports() : outer_(heard_by) { heard_by = this; }
HeardReports::~HeardReports() { heard_by = outer_; }

void report_line(LogLevel level, std::string_view line) {
  if (ReportsOnce::is_due(line)) write_log(level, line);
  if (level == LogLevel::warning && heard_by != nullptr) heard_by->lines_.emplace_back(line);
}

void CountedRemarks::add(LogLevel level, std::string_view kind, std::string_view example) {
  auto found = std::ranges::find(kinds_, kind, &Kind::text);
  if (found == kinds_.end()) {
    kinds_.push_back({level, std::string(kind), std::string(example)});
    found = std::prev(kinds_.end());
  }
  ++found->count;
}

void CountedRemarks::report(std::string_view what) const {
  for (const auto& kind : kinds_) {
    report_line(kind.level, fmt::format("{}: {} {}{} {}", what, kind.count, kind.text,
                                        kind.count == 1 ? ":" : "; the first is", kind.first));
  }
}

std::int64_t CountedRemarks::count_of(std::string_view kind) const {
  const auto found = std::ranges::find(kinds_, kind, &Kind::text);
  return found == kinds_.end() ? 0 : found->count;
}

}  // namespace lockstep::data
