// Metrics of the operator, in Prometheus' text format.
#pragma once

#include <apps/operator/api/answer.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::kube {

/// Thread-safe.
class Metrics {
 public:
  void count_request(std::string_view method, Outcome outcome);
  void count_watch(std::string_view plural);  ///< a watch has started

  std::atomic<std::uint64_t> decisions{0};
  std::atomic<std::uint64_t> failures{0};  ///< decisions that could not be executed
  std::atomic<bool> leads{false};

  /// `gauges` are added as they are: name, value.
  std::string text(const std::map<std::string, double>& gauges) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> requests_;
  std::map<std::string, std::uint64_t> watches_;
};

}  // namespace lockstep::kube
