// A queue of the keys of changed jobs: each key is in it once, and one worker at a time processes it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <stop_token>
#include <string>

namespace lockstep::kube {

/// Thread-safe.
class WorkQueue {
 public:
  using Clock = std::chrono::steady_clock;

  void add(const std::string& key);
  void add_after(const std::string& key, std::chrono::milliseconds time);
  /// Adds the key again after a backoff, which doubles from 0.1 s to 60 s until forgive().
  void retry(const std::string& key, std::optional<std::chrono::milliseconds> at_least = std::nullopt);
  void forgive(const std::string& key);

  /// Waits for a key that no other worker processes; nullopt when stopped. done() must follow.
  std::optional<std::string> take(std::stop_token stop);
  void done(const std::string& key);

  std::size_t size() const;

 private:
  void wake_due(Clock::time_point now);

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::set<std::string> ready_;
  std::set<std::string> taken_;
  std::set<std::string> again_;  ///< keys in processing that were added again
  std::map<std::string, Clock::time_point> delayed_;
  std::map<std::string, int> failures_;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace lockstep::kube
