// The elastic agent: `lockstep run` on one of several nodes, or with restarts. Starts its node's ranks in each round.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/cluster/elastic/node_rendezvous.h>
#include <lockstep/cluster/launch.h>

#include <string>

namespace lockstep::cluster::elastic {

struct AgentOptions {
  std::string job = "none";  ///< the same for all agents of a job
  Policy policy{};           ///< the same for all agents of a job
  NodeDescription node{};
  std::string address = "127.0.0.1";  ///< the address at which the other nodes reach this one
  std::chrono::milliseconds heartbeat = std::chrono::seconds(1);    ///< from one heartbeat to the next
  std::chrono::milliseconds join_limit = std::chrono::minutes(10);  ///< until the service is reached
  /// The time without a connection with the service after which this agent gives up.
  std::chrono::milliseconds service_limit = std::chrono::seconds(10);
};

/// The network to the job's service is lost, and other nodes may continue. A new agent may join them when the network
/// works again.
class CutOff : public Error {
 public:
  using Error::Error;
};

/// Returns when the job has ended on all nodes, or when this node leaves it: after a signal of the user, once its ranks
/// have ended. Ranks are started as by `launch`, whose rules for the calling thread hold; `first_rank` is not used. The
/// result is that of the whole job: its code and its report are the same on all nodes. Where the job was closed before
/// this node's ranks ran, `ends` is empty.
///
/// The agent that runs the service at the end of the job returns only when no other launcher uses it any more.
///
/// Throws the errors of NodeLink (its ranks have ended then; CutOff where it may join the job again), and
/// Error(invalid_argument) when the job has already ended.
LaunchResult run_agent(const LaunchOptions& launch, const AgentOptions& options, const NodeRendezvous& meeting);

}  // namespace lockstep::cluster::elastic
