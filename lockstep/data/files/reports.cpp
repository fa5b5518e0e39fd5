// Counts of unexpected actions of readers, the warnings that a run repeats on its console, the key on_error of data
// sets, and the counter of items that were left out.
#include <lockstep/base/log.h>
#include <lockstep/data/files/items.h>
#include <lockstep/data/files/reports.h>

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::data {
namespace {

thread_local HeardReports* heard_by = nullptr;
thread_local ReportsOnce* once_by = nullptr;

thread_local BadItemsTaken* taken_by = nullptr;

void say_left_out(const Error& error) {
  const auto line = fmt::format("left out: {}", error.what());
  if (ReportsOnce::is_due(line)) write_log(LogLevel::warning, line);
}

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

BadItemsTaken::BadItemsTaken() : outer_(taken_by) { taken_by = this; }
BadItemsTaken::~BadItemsTaken() { taken_by = outer_; }

BadItemsTaken* BadItemsTaken::current() { return taken_by; }

void BadItemsTaken::take(const Error& error) {
  constexpr std::size_t kMost = 100;
  ++count_;
  if (first_.size() < kMost) first_.emplace_back(error.what());
}

Error naming_way_out(const Error& error, std::string_view way_out) {
  if (error.kind() != ErrorKind::data || taken_by != nullptr) return error;
  return Error(error.kind(), error.where(), fmt::format("{}; {} leaves it out", error.message(), way_out),
               error.position());
}

void describe_on_error(ConfigFields& fields, std::string& on_error) {
  fields.field("on_error", on_error, one_of({"fail", "skip"}),
               "what cannot be used: fail ends the run, skip leaves it out, logs it and counts it");
}

bool BadItems::try_to(const std::function<void()>& read) {
  constexpr std::int64_t kShown = 10;
  try {
    read();
    return true;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::data && taken_by != nullptr) {
      taken_by->take(error);
      return false;
    }
    if (!skips_ || error.kind() != ErrorKind::data) throw naming_way_out(error);
    if (++count_ <= kShown) say_left_out(error);
    return false;
  }
}

void BadItems::report(std::int64_t all) const {
  if (count_ == 0) return;
  report_line(LogLevel::warning,
              fmt::format("{} of {} {} were left out, because data.on_error is skip", count_, all, what_));
}

}  // namespace lockstep::data
