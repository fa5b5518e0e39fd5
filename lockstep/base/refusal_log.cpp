// A log of refused connections: ten lines a minute, then only their number and the last one.
#include <lockstep/base/log.h>
#include <lockstep/base/refusal_log.h>

namespace lockstep {
namespace {

constexpr std::size_t kLines = 10;
constexpr auto kPeriod = std::chrono::minutes(1);

}  // namespace

void RefusalLog::note(const std::string& who, const std::string& reason, Time now) {
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

void RefusalLog::tick(Time now) {
  if (said_ == 0 || now - since_ < kPeriod) return;
  finish();
  said_ = 0;
}

void RefusalLog::finish() {
  if (unsaid_ > 0) log_warning("refused {} more within a minute; the last was {}", unsaid_, last_);
  unsaid_ = 0;
}

}  // namespace lockstep
