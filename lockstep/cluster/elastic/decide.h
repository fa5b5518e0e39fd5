// The rules by which the service of launchers decides its next action. Pure: uses no store, no process and no clock.
#pragma once

#include <lockstep/cluster/elastic/job_state.h>

#include <chrono>
#include <span>
#include <string>
#include <vector>

namespace lockstep::cluster::elastic {

struct Policy {
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;      ///< the limit for restarts of all ranks, by the whole job
  int max_replacements = 0;  ///< the limit for replacements of ranks and nodes, restarts included
  bool ranks_given = false;  ///< the user gave every node its number
  std::chrono::milliseconds join_timeout = std::chrono::minutes(10);  ///< until min_nodes have joined
  std::chrono::milliseconds last_call = std::chrono::seconds(30);     ///< for more than those, before round 1
  /// The time after the loss of a node until its ranks are detected as lost, too, and another node takes them in this
  /// round.
  std::chrono::milliseconds replace_timeout = std::chrono::minutes(1);
  std::chrono::milliseconds heartbeat_limit = std::chrono::seconds(5);  ///< after which an agent counts as lost
};

/// One agent as the service sees it.
struct NodeView {
  Ticket ticket = 0;
  NodeDescription description;
  NodeReport report;
  bool alive = true;         ///< it has sent a heartbeat within the limit
  bool ranks_known = false;  ///< its ranks are registered with the job service: when they are lost, the other ranks can
                             ///< continue from memory
  bool ranks_lost = false;   ///< the job service has lost them all
  bool current = true;       ///< it has reported to this service; otherwise its report may be out of date
};

/// Durations of waiting, by the service's clock.
struct Waited {
  std::chrono::milliseconds gathering{0};  ///< since the phase began
  std::chrono::milliseconds enough{0};     ///< since min_nodes nodes have joined
  std::chrono::milliseconds lost{0};       ///< since a node was lost whose place another one may take
};

struct Decision {
  enum class Kind {
    wait,
    end_round,  ///< changes to phase gathering
    form,       ///< begins a round of `members`
    replace,    ///< node `taker` takes the place of node `lost` in this round
    refuse,     ///< excludes the nodes `refused`, with which the program cannot run; the other nodes continue
    close,
  };
  Kind kind = Kind::wait;
  std::string why{};              ///< for end_round, replace, refuse and close, and for wait with a lost node
  std::vector<Ticket> members{};  ///< for form: in the order of their node numbers
  bool uses_restart = false;      ///< for form
  Ticket lost = 0;                ///< for replace
  Ticket taker = 0;               ///< for replace
  std::vector<Ticket> refused{};  ///< for refuse
  bool failed = false;            ///< for close
  bool enough = false;            ///< for wait: min_nodes nodes have joined, so `Waited::enough` counts
  bool awaits_taker = false;      ///< for wait: a node is lost, so `Waited::lost` counts
};

/// `members` are those of the last round, in the order of their node numbers; all of them are among `nodes`.
///
/// A round ends when a member fails, is lost or leaves, or when a node has joined and there is room for it. It
/// continues when another node can take the place of a lost node: the other ranks wait for the ranks of that node. It
/// succeeds when all ranks except lost ones have ended well, because these ranks need no others. The next round begins
/// when the ranks of all live members have ended. The cause is decided only then: a rank that fails because another
/// node was lost uses no restart. If a round only had more nodes than the round before, and its ranks report that their
/// configuration does not allow that number, the new nodes are refused, and so are nodes that would give the same
/// number of ranks again.
Decision decide(const JobState& state, std::span<const Ticket> members, std::span<const NodeView> nodes,
                const Policy& policy, const Waited& waited);

}  // namespace lockstep::cluster::elastic
