// The operator as a whole: watches, workers, the Lease, probes and metrics.
#pragma once

#include <apps/operator/api/access.h>
#include <apps/operator/controller/leader.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

namespace lockstep::kube {

struct OperatorOptions {
  Access access;
  std::string space{};  ///< of the jobs; empty: all namespaces
  bool elect_leader = true;
  LeaseOptions lease{};  ///< an empty identity: this host's name and a random suffix
  double requests_per_second = 20;
  double burst = 50;
  int workers = 4;
  std::string probe_host = "127.0.0.1";
  std::uint16_t probe_port = 0;  ///< 0: any
  bool probes = true;
  std::chrono::seconds watch_time = std::chrono::seconds(300);
  std::chrono::seconds progress_time = std::chrono::seconds(10);  ///< between queries of a job's step; 0: none
  std::function<void(std::uint16_t probe_port)> on_start{};
};

/// Runs until `stop`, or until the Lease is lost: then Error(peer_lost), because another operator acts. Error(io) when
/// the API server is unreachable at the start, or rejects this client.
void run_operator(const OperatorOptions& options, std::stop_token stop);

}  // namespace lockstep::kube
