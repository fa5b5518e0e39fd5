// Metrics of the operator, in Prometheus' text format, and the server for them: /healthz, /readyz and /metrics over
// plain HTTP.
#pragma once

#include <apps/operator/api/answer.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::kube {

struct ProbeAnswer {
  unsigned status = 200;
  std::string text;
};

/// Serves GET requests on a separate thread, until it is destroyed.
class ProbeServer {
 public:
  /// `answer` is called with the path, on that thread. Error(io) when the port cannot be bound; 0: any port.
  ProbeServer(const std::string& host, std::uint16_t port, std::function<ProbeAnswer(const std::string&)> answer);
  ~ProbeServer();
  ProbeServer(const ProbeServer&) = delete;
  ProbeServer& operator=(const ProbeServer&) = delete;

  std::uint16_t port() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

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
