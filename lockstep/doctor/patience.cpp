#include <lockstep/doctor/patience.h>

#include <algorithm>
#include <utility>

namespace lockstep::doctor {

using std::chrono::milliseconds;

Patience::Patience(milliseconds limit, std::stop_token stop)
    : deadline_(Clock::now() + limit), stop_(std::move(stop)) {}

bool Patience::over() const { return stopped() || Clock::now() >= deadline_; }

milliseconds Patience::left() const {
  if (stopped()) return milliseconds(0);
  return std::max(std::chrono::ceil<milliseconds>(deadline_ - Clock::now()), milliseconds(0));
}

milliseconds Patience::slice() const { return std::min(left(), milliseconds(50)); }

Patience Patience::at_most(milliseconds limit) const { return Patience(std::min(limit, left()), stop_); }

}  // namespace lockstep::doctor
