// The decision of a job's coordinator: what it does next. Pure: uses no store, no process and no clock.
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
  int max_restarts = 0;                                               ///< of all ranks, by the whole job
  int max_replacements = 0;                                           ///< of ranks and nodes, restarts included
  bool ranks_given = false;                                           ///< the user gave every node its number
  std::chrono::milliseconds join_timeout = std::chrono::minutes(10);  ///< until min_nodes have joined
  std::chrono::milliseconds last_call = std::chrono::seconds(30);     ///< for more than those, before round 1
  /// After the loss of a node, until its ranks are known to be lost, too, and another node takes them in this round.
  std::chrono::milliseconds replace_timeout = std::chrono::minutes(1);
  std::chrono::milliseconds heartbeat_limit = std::chrono::seconds(5);  ///< after which an agent counts as lost
};

/// The coordinator's knowledge of one agent.
struct NodeView {
  Ticket ticket = 0;
  NodeDescription description;
  NodeReport report;
  bool alive = true;         ///< its heartbeat still changes
  bool ranks_known = false;  ///< the job service knows its ranks: the others can go on from memory when it is lost
  bool ranks_lost = false;   ///< the job service has lost them all
  bool current = true;       ///< its report is newer than this coordinator; else it may be out of date
};

/// Durations of waiting, by the coordinator's clock.
struct Waited {
  std::chrono::milliseconds gathering{0};  ///< since the phase began
  std::chrono::milliseconds enough{0};     ///< since min_nodes had joined
  std::chrono::milliseconds lost{0};       ///< since a node was lost whose place another one may take
};

struct Decision {
  enum class Kind {
    wait,
    end_round,  ///< to phase gathering
    form,       ///< a round of `members`
    replace,    ///< node `lost` of this round by node `taker`
    refuse,     ///< the nodes `refused`: the program cannot run with them, and the others go on
    close,
  };
  Kind kind = Kind::wait;
  std::string why{};              ///< of end_round, replace, refuse and close, and of wait for a lost node
  std::vector<Ticket> members{};  ///< of form: in the order of their node numbers
  bool uses_restart = false;      ///< of form
  Ticket lost = 0;                ///< of replace
  Ticket taker = 0;               ///< of replace
  std::vector<Ticket> refused{};  ///< of refuse
  bool failed = false;            ///< of close
  bool enough = false;            ///< of wait: min_nodes have joined, so `Waited::enough` counts
  bool awaits_taker = false;      ///< of wait: a node is lost, so `Waited::lost` counts
};

/// `members` are those of the last round, in the order of their node numbers; all of them are among `nodes`.
///
/// A round ends when a member fails, is lost or leaves, or when a node has joined and there is room for it. It goes on
/// when another node can take the place of a lost one, whose ranks the others wait for, and ends well when all ranks
/// but lost ones have ended well: they need no others. The next round begins when the ranks of all live members have
/// ended. Only then is the cause decided: a rank that fails because another node was lost uses no restart. Where a
/// round only had more nodes than the one before, and its ranks say that their configuration does not allow that, the
/// new ones are refused, and so are those that would make it as many ranks again.
Decision decide(const JobState& state, std::span<const Ticket> members, std::span<const NodeView> nodes,
                const Policy& policy, const Waited& waited);

}  // namespace lockstep::cluster::elastic
