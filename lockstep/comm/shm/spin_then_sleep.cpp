// The steps of a wait with an adaptive spin time, and futexes in shared memory with a bit for each sleeping rank.
#include <lockstep/comm/shm/spin_then_sleep.h>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <ctime>

namespace lockstep::shm {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr nanoseconds kLeastSpin = microseconds(1);
constexpr std::uint64_t kLooksPerClock = 16;  // a clock read costs as much as a few checks

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

namespace {

// The words are in memory shared between processes: no FUTEX_PRIVATE_FLAG.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::nanoseconds limit) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  const timespec relative{static_cast<time_t>(seconds.count()), static_cast<long>((limit - seconds).count())};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &relative, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::size_t words_in_use(const Segment& segment) { return (static_cast<std::size_t>(segment.ranks()) + 63) / 64; }

std::uint64_t bit_of(int rank) { return std::uint64_t{1} << (rank % 64); }

}  // namespace

void wake_sleepers(const Segment& segment, int rank) {
  auto& sleepers = segment.sleepers(rank);
  for (std::size_t i = 0; i < words_in_use(segment); ++i) {
    std::uint64_t ranks = sleepers.ranks[i].exchange(0, std::memory_order_acq_rel);
    for (; ranks != 0; ranks &= ranks - 1) {
      auto& word = segment.bell(static_cast<int>(i) * 64 + std::countr_zero(ranks)).word;
      word.fetch_add(1, std::memory_order_acq_rel);
      futex_wake(word);
    }
  }
}

void sleep_until_published(const Segment& segment, int rank, std::span<const int> publishers,
                           std::chrono::nanoseconds limit, const std::function<bool()>& look_again) {
  auto& word = segment.bell(rank).word;
  // Read before the bits are set: a wake after that changes the word, and the futex does not sleep on another value.
  const std::uint32_t heard = word.load(std::memory_order_acquire);
  const auto index = static_cast<std::size_t>(rank) / 64;
  for (const int publisher : publishers) {
    segment.sleepers(publisher).ranks[index].fetch_or(bit_of(rank), std::memory_order_acq_rel);
  }
  if (!look_again()) futex_wait(word, heard, limit);
  for (const int publisher : publishers) {
    segment.sleepers(publisher).ranks[index].fetch_and(~bit_of(rank), std::memory_order_acq_rel);
  }
}

}  // namespace lockstep::shm
