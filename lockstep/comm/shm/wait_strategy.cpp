#include <lockstep/comm/shm/wait_strategy.h>

#include <algorithm>

namespace lockstep::shm {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr nanoseconds kLeastSpin = microseconds(1);
constexpr std::uint64_t kLooksPerClock = 16;  // reading the clock costs as much as a few looks

}  // namespace

WaitStrategy::WaitStrategy(int ranks, int cpus) {
  if (ranks > cpus) {
    yields_ = 20;
    return;
  }
  most_spin_ = microseconds(50);
  spin_ = most_spin_;
  yield_ = microseconds(100);
  yields_ = 4;
}

Waiting::Step Waiting::next() {
  if (phase_ == Step::spin) {
    if (looks_++ % kLooksPerClock != 0) return Step::spin;
    const auto now = Clock::now();
    if (looks_ == 1) start_ = now;
    if (now - start_ < strategy_.spin_) return Step::spin;
    strategy_.spin_ = std::min(strategy_.most_spin_, std::max(strategy_.spin_ / 2, kLeastSpin));
    phase_ = Step::yield;
    start_ = now;
    looks_ = 0;
  }
  if (phase_ == Step::yield) {
    if (looks_++ < strategy_.yields_ || Clock::now() - start_ < strategy_.yield_) return Step::yield;
    phase_ = Step::sleep;
  }
  return Step::sleep;
}

void Waiting::restart() {
  if (phase_ == Step::spin && looks_ > 0) strategy_.spin_ = std::min(strategy_.most_spin_, strategy_.spin_ * 2);
  phase_ = Step::spin;
  looks_ = 0;
}

}  // namespace lockstep::shm
