// Waits that advance the pending operations of all groups of a job.
#include <lockstep/comm/progress.h>

#include <lockstep/comm/backend.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace lockstep::detail {

void Pause::take() {
  constexpr int kYields = 200;
  constexpr auto kLongest = std::chrono::microseconds(200);
  if (++taken_ <= kYields) return std::this_thread::yield();
  std::this_thread::sleep_for(length_);
  length_ = std::min(length_ * 2, kLongest);
}

void Progress::add(std::weak_ptr<Backend> backend) {
  const std::lock_guard lock(mutex_);
  std::erase_if(backends_, [](const auto& each) { return each.expired(); });
  backends_.push_back(std::move(backend));
}

Progressed Progress::advance_others(const Backend& own) {
  Progressed all;
  // Not under the lock: a complete operation releases tensors, and these may release the last handle to a group.
  std::vector<std::shared_ptr<Backend>> others;
  {
    const std::lock_guard lock(mutex_);
    if (backends_.size() < 2) return all;
    for (const auto& each : backends_) {
      if (auto backend = each.lock(); backend && backend->is_unfinished() && !own.advances(*backend)) {
        others.push_back(std::move(backend));
      }
    }
  }
  for (const auto& backend : others) {
    const auto one = backend->advance();
    all.unfinished |= one.unfinished;
    all.moved |= one.moved;
  }
  return all;
}

void Progress::wait(WorkState& work, Backend& own, std::chrono::milliseconds timeout) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kBetweenChecks = std::chrono::milliseconds(50);
  if (!advance_others(own).unfinished) return work.wait(timeout);

  const auto start = Clock::now();
  const auto waited = [&] { return std::chrono::floor<std::chrono::milliseconds>(Clock::now() - start); };
  auto next_check = kBetweenChecks;
  bool unfinished = true;
  for (Pause pause; unfinished && waited() < timeout; pause.take()) {
    const bool moved = own.advance().moved;
    if (work.would_return()) break;
    const auto others = advance_others(own);
    unfinished = others.unfinished;
    if (moved || others.moved) pause.restart();
    if (waited() >= next_check) {
      work.check_peers();
      next_check = waited() + kBetweenChecks;
    }
  }
  work.wait(std::max(timeout - waited(), std::chrono::milliseconds(0)));
}

}  // namespace lockstep::detail
