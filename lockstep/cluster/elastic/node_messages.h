// The messages between launchers and the service that decides on their job: one JSON object for each WebSocket message,
// {"type": ..., ...}.
//
// A launcher connects to /v1/node; the service sends NodeGreeting, the launcher sends NodeHello, and is a node of the
// job when NodeWelcome arrives. After each welcome it reports its whole state again, so a lost connection loses
// nothing. A reader ignores unknown fields, so that later versions may add some; changes of existing fields need
// another protocol number. All input is from a peer that may be hostile: Error(data) names what is wrong with it.
#pragma once

#include <lockstep/cluster/elastic/decide.h>
#include <lockstep/cluster/elastic/job_state.h>
#include <lockstep/cluster/elastic/rank_ends.h>
#include <lockstep/cluster/replace/rank_losses.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace lockstep::cluster::elastic {

inline constexpr int kNodeProtocol = 2;
inline constexpr std::size_t kLongestName = 256;                          ///< bytes of names, nonces, proofs
inline constexpr std::size_t kLongestOfStranger = std::size_t{64} << 10;  ///< before its launcher is a node
/// The last lines of a few hundred ranks fit.
inline constexpr std::size_t kLongestNodeMessage = std::size_t{8} << 20;

// ---- from the service

/// The first message on a connection.
struct NodeGreeting {
  int protocol = kNodeProtocol;
  std::string nonce;    ///< challenge for the launcher's proof of the secret
  bool secret = false;  ///< whether the service needs such a proof
};

/// The launcher is a node of the job.
struct NodeWelcome {
  Ticket ticket = 0;
  std::string service;  ///< a random name of the job here; a service that continues from a saved state keeps it
  std::string proof;    ///< proof that the service has the secret; empty without one
};

/// The launcher is no node of the job.
struct NodeRefusal {
  std::string reason;
  bool ended = false;  ///< the job has ended
  bool again = false;  ///< the launcher may join as a new node
};

/// The job as one node sees it. Sent whenever it has changed.
struct JobView {
  JobState job;
  bool replaced = false;             ///< another node has taken this node's place in the round
  bool refused = false;              ///< the program cannot run with this node
  std::optional<NodePlace> place{};  ///< this node's place in the round; nullopt: it has none
  std::optional<Place> meeting{};    ///< the rendezvous of the round's ranks, once node 0 has published it
  std::string report{};      ///< of the failure that ended the round before, refused this node, or ended the job
  RankLosses losses{};       ///< of the round's ranks
  std::int64_t sent_at = 0;  ///< the service's wall clock, in milliseconds; only for differences between clocks
  bool operator==(const JobView&) const = default;
};

/// The answer to a ReplacementWish.
struct ReplacementAnswer {
  std::int64_t number = 0;
  bool granted = false;
};

/// The service has received that the launcher leaves.
struct Goodbye {};

// ---- from a launcher

struct NodeHello {
  int protocol = kNodeProtocol;
  std::string job;   ///< --rdzv_id
  std::string life;  ///< random, of this launcher
  NodeDescription node;
  Policy policy;        ///< of the job: that of its first launcher counts
  Ticket ticket = 0;    ///< of an earlier welcome; 0: none
  std::string service;  ///< the name in that welcome
  std::string nonce;    ///< challenge for the service's proof
  std::string proof;    ///< proof that it has the secret
};

/// The ends of this node's ranks in a round. Sent before the report of the stage that follows from them.
struct RanksEnded {
  int round = 0;
  NodeEnds ends;
};

/// From node 0: the rendezvous of the round's ranks.
struct RanksMeet {
  int round = 0;
  Place place;
};

/// From node 0: what the job service of the round's ranks reports.
struct RanksLost {
  int round = 0;
  RankLosses losses;
};

/// A request for one of the job's replacements, for a rank that is lost. Repeated after each welcome until the answer.
struct ReplacementWish {
  std::int64_t number = 0;  ///< from 1, of this launcher
};

using FromNodeService = std::variant<NodeGreeting, NodeWelcome, NodeRefusal, JobView, ReplacementAnswer, Goodbye>;
using FromNode = std::variant<NodeHello, NodeReport, RanksEnded, RanksMeet, RanksLost, ReplacementWish>;

FromNodeService parse_from_node_service(std::string_view text);
FromNode parse_from_node(std::string_view text);

/// Invalid UTF-8 is replaced, as a rank may write any bytes.
std::string print(const FromNodeService& message);
std::string print(const FromNode& message);

}  // namespace lockstep::cluster::elastic
