// The key on_error of data sets, and the counter of items that were left out.
#include <lockstep/base/log.h>
#include <lockstep/data/files/bad_items.h>
#include <lockstep/data/files/counted_remarks.h>
#include <lockstep/data/files/items.h>

namespace lockstep::data {

namespace {

thread_local BadItemsTaken* taken_by = nullptr;

void say_left_out(const Error& error) {
  const auto line = fmt::format("left out: {}", error.what());
  if (ReportsOnce::is_due(line)) write_log(LogLevel::warning, line);
}

}  // namespace

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
