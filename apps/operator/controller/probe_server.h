// /healthz, /readyz and /metrics over plain HTTP.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

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

}  // namespace lockstep::kube
