#include <lockstep/comm/shm/patience.h>

#include <algorithm>

namespace lockstep::shm {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr nanoseconds kLeastSpin = microseconds(1);
constexpr std::uint64_t kLooksPerClock = 16;  // reading the clock costs as much as a few looks

}  // namespace

Patience::Patience(int ranks, int cpus) {
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
    if (now - start_ < patience_.spin_) return Step::spin;
    patience_.spin_ = std::min(patience_.most_spin_, std::max(patience_.spin_ / 2, kLeastSpin));
    phase_ = Step::yield;
    start_ = now;
    looks_ = 0;
  }
  if (phase_ == Step::yield) {
    if (looks_++ < patience_.yields_ || Clock::now() - start_ < patience_.yield_) return Step::yield;
    phase_ = Step::sleep;
  }
  return Step::sleep;
}

void Waiting::restart() {
  if (phase_ == Step::spin && looks_ > 0) patience_.spin_ = std::min(patience_.most_spin_, patience_.spin_ * 2);
  phase_ = Step::spin;
  looks_ = 0;
}

}  // namespace lockstep::shm
