#include <lockstep/comm/shm/patience.h>

namespace lockstep::shm {

Patience patience_for(int ranks, int cpus) {
  using std::chrono::microseconds;
  if (ranks > cpus) return {microseconds(0), microseconds(0), 20};
  return {microseconds(50), microseconds(100), 4};
}

Waiting::Step Waiting::next() {
  constexpr std::uint64_t kLooksPerClock = 32;  // reading the clock costs as much as a few looks
  if (phase_ == Step::spin) {
    if (looks_++ % kLooksPerClock != 0) return Step::spin;
    const auto now = Clock::now();
    if (looks_ == 1) start_ = now;
    if (now - start_ < patience_.spin) return Step::spin;
    phase_ = Step::yield;
    start_ = now;
    looks_ = 0;
  }
  if (phase_ == Step::yield) {
    if (looks_++ < static_cast<std::uint64_t>(patience_.yields) || Clock::now() - start_ < patience_.yield) {
      return Step::yield;
    }
    phase_ = Step::sleep;
  }
  return Step::sleep;
}

}  // namespace lockstep::shm
