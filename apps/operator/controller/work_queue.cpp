// A queue of job keys: ready, taken, delayed, and added again while taken; retries back off with jitter.
#include <apps/operator/controller/work_queue.h>

#include <algorithm>

namespace lockstep::kube {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstRetry(100);
constexpr milliseconds kLongestRetry(60'000);
constexpr int kMostDoublings = 10;

}  // namespace

void WorkQueue::add(const std::string& key) {
  const std::lock_guard lock(mutex_);
  delayed_.erase(key);
  (taken_.contains(key) ? again_ : ready_).insert(key);
  changed_.notify_one();
}

void WorkQueue::add_after(const std::string& key, milliseconds time) {
  const std::lock_guard lock(mutex_);
  const auto when = Clock::now() + time;
  const auto [at, is_new] = delayed_.emplace(key, when);
  if (!is_new) at->second = std::min(at->second, when);
  changed_.notify_one();
}

void WorkQueue::retry(const std::string& key, std::optional<milliseconds> at_least) {
  milliseconds pause;
  {
    const std::lock_guard lock(mutex_);
    const int failures = std::min(failures_[key]++, kMostDoublings);
    pause = std::min(kFirstRetry * (1 << failures), kLongestRetry);
    pause = pause / 2 + milliseconds(random_() % static_cast<unsigned>(pause.count() / 2 + 1));
  }
  add_after(key, std::max(pause, at_least.value_or(pause)));
}

void WorkQueue::forgive(const std::string& key) {
  const std::lock_guard lock(mutex_);
  failures_.erase(key);
}

void WorkQueue::wake_due(Clock::time_point now) {
  for (auto at = delayed_.begin(); at != delayed_.end();) {
    if (at->second > now) {
      ++at;
      continue;
    }
    (taken_.contains(at->first) ? again_ : ready_).insert(at->first);
    at = delayed_.erase(at);
  }
}

std::optional<std::string> WorkQueue::take(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const auto now = Clock::now();
    wake_due(now);
    if (!ready_.empty()) {
      const auto key = *ready_.begin();
      ready_.erase(ready_.begin());
      taken_.insert(key);
      return key;
    }
    auto until = now + kLongestRetry;
    for (const auto& [key, when] : delayed_) until = std::min(until, when);
    changed_.wait_until(lock, stop, until, [&] {
      // A key that was added with an earlier time needs a shorter wait.
      return !ready_.empty() ||
             std::any_of(delayed_.begin(), delayed_.end(), [&](const auto& d) { return d.second < until; });
    });
  }
  return std::nullopt;
}

void WorkQueue::done(const std::string& key) {
  const std::lock_guard lock(mutex_);
  taken_.erase(key);
  if (again_.erase(key) == 0) return;
  ready_.insert(key);
  changed_.notify_one();
}

std::size_t WorkQueue::size() const {
  const std::lock_guard lock(mutex_);
  return ready_.size() + taken_.size() + delayed_.size();
}

}  // namespace lockstep::kube
