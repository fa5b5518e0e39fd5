// The switch between parts of a rank's time: the time since the last switch goes to the part that ends, and the parts
// of a step count when the step is complete.
#include <lockstep/train/output/time_account.h>

#include <algorithm>
#include <utility>

namespace lockstep::train {
namespace {

constexpr std::size_t number_of(TimePart part) { return static_cast<std::size_t>(part); }

}  // namespace

void TimeAccount::close(const Moment& now) {
  using std::chrono::nanoseconds;
  const auto elapsed = std::max(now.time - since_.time, nanoseconds(0));
  if (losing_) {
    parts_[number_of(TimePart::lost)] += elapsed;
  } else if (in_step_) {
    // Other threads may have been blocked at the same time.
    const auto blocked = std::clamp(now.blocked - since_.blocked, nanoseconds(0), elapsed);
    step_[number_of(part_)] += elapsed - blocked;
    step_[number_of(TimePart::communicate)] += blocked;
  } else {
    parts_[number_of(part_)] += elapsed;
  }
  since_ = {std::max(now.time, since_.time), now.blocked};
}

TimePart TimeAccount::enter(TimePart part, const Moment& now) {
  close(now);
  return std::exchange(part_, part);
}

void TimeAccount::begin_step(std::int64_t number, const Moment& now) {
  close(now);
  losing_ = number <= furthest_;
  in_step_ = true;
  number_ = number;
  part_ = TimePart::compute;
}

void TimeAccount::complete_step(const Moment& now, bool splits) {
  close(now);
  for (std::size_t i = 0; i < parts_.size(); ++i) parts_[i] += step_[i];
  if (splits && !losing_ && kept_.size() < kKeptSteps) kept_.push_back(step_[number_of(TimePart::communicate)]);
  step_ = {};
  in_step_ = false;
  furthest_ = std::max(furthest_, number_);
  part_ = TimePart::other;
}

void TimeAccount::lose(std::chrono::nanoseconds now) {
  losing_ = true;
  close({now, {}});
  parts_[number_of(TimePart::lost)] += sum_of(step_);
  step_ = {};
  in_step_ = false;
  kept_.clear();
}

void TimeAccount::go_on(std::int64_t step, const Moment& now) {
  close(now);
  if (losing_) part_ = TimePart::other;
  losing_ = step < furthest_;
}

void TimeAccount::split(std::span<const std::chrono::nanoseconds> least) {
  for (std::size_t i = 0; i < std::min(least.size(), kept_.size()); ++i) {
    const auto waited = std::max(kept_[i] - least[i], std::chrono::nanoseconds(0));
    parts_[number_of(TimePart::communicate)] -= waited;
    parts_[number_of(TimePart::wait)] += waited;
  }
  kept_.clear();
}

void TimeAccount::add_earlier(const PartTimes& parts) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    parts_[i] += parts[i];
    taken_[i] += parts[i];
  }
}

void TimeAccount::take_over(const PartTimes& parts, std::chrono::nanoseconds now) {
  parts_ = parts;
  taken_ = parts;
  taken_[number_of(TimePart::lost)] -= now - begun_;
  since_ = {now, {}};
  losing_ = true;
}

PartTimes TimeAccount::own() const {
  PartTimes own = parts_;
  for (std::size_t i = 0; i < own.size(); ++i) own[i] -= taken_[i];
  return own;
}

void TimeAccount::completed_before(std::int64_t step) { furthest_ = std::max(furthest_, step); }

}  // namespace lockstep::train
