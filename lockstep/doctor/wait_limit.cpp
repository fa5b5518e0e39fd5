#include <lockstep/doctor/wait_limit.h>

#include <algorithm>
#include <utility>

namespace lockstep::doctor {

using std::chrono::milliseconds;

WaitLimit::WaitLimit(milliseconds limit, std::stop_token stop)
    : deadline_(Clock::now() + limit), stop_(std::move(stop)) {}

bool WaitLimit::over() const { return stopped() || Clock::now() >= deadline_; }

milliseconds WaitLimit::left() const {
  if (stopped()) return milliseconds(0);
  return std::max(std::chrono::ceil<milliseconds>(deadline_ - Clock::now()), milliseconds(0));
}

milliseconds WaitLimit::slice() const { return std::min(left(), milliseconds(50)); }

WaitLimit WaitLimit::at_most(milliseconds limit) const { return WaitLimit(std::min(limit, left()), stop_); }

}  // namespace lockstep::doctor
