// A token bucket under a mutex, which returns the time that each request must wait.
#include <apps/operator/api/rate_limit.h>

#include <algorithm>

namespace lockstep::kube {

RateLimit::Clock::duration RateLimit::take(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (now > last_) {
    left_ = std::min(burst_, left_ + per_second_ * std::chrono::duration<double>(now - last_).count());
    last_ = now;
  }
  left_ -= 1;
  if (left_ >= 0) return {};
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(-left_ / per_second_));
}

}  // namespace lockstep::kube
