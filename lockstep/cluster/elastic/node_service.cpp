// The steps of the service of launchers: who is a node of which job, and the decisions on rounds, carried out.
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/cluster/elastic/node_service.h>
#include <lockstep/cluster/report.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace lockstep::cluster::elastic {
namespace {

using Kind = Decision::Kind;
using std::chrono::milliseconds;

/// A launcher that was stopped and continues within this many times the limit is accepted again; one that has taken
/// part in a round, for longer.
constexpr int kPatience = 10;
constexpr auto kPatienceWithMembers = std::chrono::hours(1);
/// A service that makes no step for so long was stopped, or waited for its store.
constexpr milliseconds kStandstill(1000);
/// More decisions than one input can cause.
constexpr int kMostDecisions = 32;
constexpr std::size_t kLoggedDecisions = 10;
/// Bytes of the last lines of ranks that a job keeps: its state has to fit into one value of etcd (1.5 MiB).
constexpr std::size_t kMostLines = std::size_t{256} << 10;
constexpr std::size_t kLongestNote = 2000;

bool is_alive(const NodeJob& job, const NodeMember& node, Time now) {
  return now - node.heard < job.policy.heartbeat_limit;
}

std::vector<NodeEnds> ends_of(const NodeJob& job) {
  std::vector<NodeEnds> ends;
  for (const Ticket member : job.members) {
    const auto& ended = job.nodes.at(member).ended;
    if (ended && ended->round == job.state.round) ends.push_back(ended->ends);
  }
  return ends;
}

/// The outcome of the round; its report is kept, with `after` at its end.
RunOutcome keep_report(NodeJob& job, const std::string& after) {
  auto outcome = judge_all(ends_of(job));
  if (!outcome.report.empty()) job.reports[job.state.round] = outcome.report + after;
  std::erase_if(job.reports,
                [&](const auto& item) { return item.first < job.state.round && item.first != job.state.forgiven; });
  return outcome;
}

std::size_t bytes_of_lines(const NodeJob& job) {
  std::size_t bytes = 0;
  for (const auto& [ticket, node] : job.nodes) {
    if (!node.ended) continue;
    for (const RankEnd& end : node.ended->ends.ends) {
      for (const auto& line : end.last_lines) bytes += line.size();
    }
  }
  return bytes;
}

bool is_first_node(const NodeJob& job, const NodeMember& node) {
  return !job.members.empty() && &job.nodes.at(job.members.front()) == &node;
}

/// Leaves out what many ranks that fail together would make too long. The first to fail are the first to report.
void shorten(NodeEnds& ends, std::size_t room) {
  for (RankEnd& end : ends.ends) {
    if (end.note && end.note->message.size() > kLongestNote) end.note->message.resize(kLongestNote);
    for (const auto& line : end.last_lines) {
      if (line.size() > room) {
        end.last_lines.clear();
        break;
      }
      room -= line.size();
    }
  }
}

int replaced_of_restarts(const NodeJob& job) { return std::min(job.replaced, job.policy.max_restarts); }

// ---- the facts of a decision

/// Finds which members' ranks are registered with the job service, and which of them it has lost.
void look_at_lost_ranks(const NodeJob& job, std::vector<NodeView>& nodes) {
  if (!job.losses.ranks) return;
  const std::set<int> ranks(job.losses.ranks->begin(), job.losses.ranks->end());
  int first = 0;
  for (const Ticket member : job.members) {
    const auto node = std::find_if(nodes.begin(), nodes.end(), [&](const auto& view) { return view.ticket == member; });
    node->ranks_known = node->ranks_lost = true;
    for (int rank = first; rank < first + node->description.ranks; ++rank) {
      node->ranks_lost = node->ranks_lost && ranks.contains(rank);
    }
    first += node->description.ranks;
  }
}

std::vector<NodeView> views_of(const NodeJob& job, Time now) {
  std::vector<NodeView> views;
  for (const auto& [ticket, node] : job.nodes) {
    views.push_back({.ticket = ticket,
                     .description = node.description,
                     .report = node.report,
                     .alive = is_alive(job, node, now),
                     .current = node.current});
  }
  if (job.state.phase == Phase::running) look_at_lost_ranks(job, views);
  return views;
}

/// Ranks and nodes that were replaced have used some of the restarts.
Policy policy_now(const NodeJob& job) {
  Policy policy = job.policy;
  policy.max_restarts -= replaced_of_restarts(job);
  policy.max_replacements = std::max(0, policy.max_replacements - job.replaced - job.state.restarts);
  return policy;
}

Waited waited(NodeJob& job, Time now) {
  const auto since = [now](const std::optional<Time>& begin) {
    return begin ? std::chrono::duration_cast<milliseconds>(now - *begin) : milliseconds(0);
  };
  if (job.state.phase != Phase::gathering) return {.lost = since(job.lost_since)};
  if (!job.gathering_since) job.gathering_since = now;
  return {since(job.gathering_since), since(job.enough_since)};
}

// ---- decisions, carried out

/// Ends the job instead of a restart that would only repeat a failure that has occurred twice.
Decision without_repetition(NodeJob& job, Decision decision) {
  if (decision.kind != Kind::form || !decision.uses_restart) return decision;
  const auto ends = ends_of(job);
  const auto death = death_in(ends);
  job.repeated = is_repeated(ends) || (death && job.state.death && repeats(*death, *job.state.death));
  if (!job.repeated) return decision;
  return {.kind = Kind::close, .why = job.state.why, .failed = true};
}

// Also refuses nodes that would give a running round as many ranks as were refused before.
void refuse(NodeJob& job, const Decision& decision) {
  auto& state = job.state;
  state.why = decision.why;
  state.refused.insert(state.refused.end(), decision.refused.begin(), decision.refused.end());
  if (state.phase == Phase::running) return;
  keep_report(job, fmt::format("lockstep run: {}\n", decision.why));
  state.refused_ranks.push_back(state.ranks);
  state.forgiven = state.round;
  state.before.clear();
}

void form(NodeJob& job, const Decision& decision) {
  auto& state = job.state;
  const auto stays = [&](Ticket member) {
    return std::count(decision.members.begin(), decision.members.end(), member) > 0;
  };
  const bool grows = state.round > 0 && !decision.uses_restart && decision.members.size() > job.members.size() &&
                     std::all_of(job.members.begin(), job.members.end(), stays);
  if (decision.uses_restart) {
    ++state.restarts;
    state.death = death_in(ends_of(job));
    keep_report(job, fmt::format("lockstep run: all ranks are restarted: restart {} of {}\n",
                                 state.restarts + replaced_of_restarts(job), job.policy.max_restarts));
  }
  state.before = grows ? job.members : std::vector<Ticket>();
  for (auto& [ticket, node] : job.nodes) node.ended.reset();
  state.phase = Phase::running;
  state.nodes = static_cast<int>(decision.members.size());
  state.replaced.clear();
  ++state.round;
  job.members = decision.members;
  job.meeting.reset();
  job.losses = {};
  state.ranks = 0;
  for (const Ticket member : job.members) state.ranks += job.nodes.at(member).description.ranks;
}

// The ranks have had their rendezvous, and use the same place for the next one.
void replace(NodeJob& job, const Decision& decision) {
  ++job.replaced;
  job.state.why = decision.why;
  job.state.replaced.push_back(decision.lost);
  std::replace(job.members.begin(), job.members.end(), decision.lost, decision.taker);
}

void close(NodeJob& job, const Decision& decision) {
  auto& state = job.state;
  state.phase = Phase::closed;
  state.why = decision.why;
  state.failed = decision.failed;
  if (!decision.failed) return;
  std::string after;
  if (job.policy.max_restarts > 0) {
    const int used = state.restarts + replaced_of_restarts(job);
    const auto* again =
        ", because the ranks died twice in the same way at the same step, which another start would not change";
    after = fmt::format("lockstep run: {} of {} restarts were used{}\n", used, job.policy.max_restarts,
                        used == job.policy.max_restarts ? "" : (job.repeated ? again : why_no_restart(ends_of(job))));
  }
  const auto outcome = keep_report(job, after);
  state.exit_code = std::max(1, outcome.exit_code);
  state.first_failed = outcome.first_failed;
}

/// Makes the next decision; false when there is nothing to do but to wait. `changed`: the job has to be saved.
bool decide_once(NodeJob& job, Time now, bool& changed) {
  const auto decision =
      without_repetition(job, decide(job.state, job.members, views_of(job, now), policy_now(job), waited(job, now)));
  switch (decision.kind) {
    case Kind::wait:
      if (!decision.enough) job.enough_since.reset();
      if (decision.enough && !job.enough_since) job.enough_since = now;
      if (!decision.awaits_taker) job.lost_since.reset();
      if (decision.awaits_taker && !job.lost_since) job.lost_since = now;
      if (job.state.phase == Phase::closed || job.state.awaits == decision.why) return false;
      job.state.awaits = decision.why;
      changed = true;
      return false;
    case Kind::end_round:
      job.state.phase = Phase::gathering;
      job.state.why = decision.why;
      break;
    case Kind::replace: replace(job, decision); break;
    case Kind::refuse: refuse(job, decision); break;
    case Kind::form: form(job, decision); break;
    case Kind::close: close(job, decision); break;
  }
  job.state.awaits.clear();
  job.gathering_since.reset();
  job.enough_since.reset();
  job.lost_since.reset();
  changed = true;
  return true;
}

/// What a decision has changed, and why.
std::string describe_decision(const JobState& now, const JobState& before) {
  const auto why = now.why.empty() ? "" : fmt::format(" ({})", now.why);
  if (now.phase == Phase::closed) return fmt::format("the job ends with {}{}", now.exit_code, why);
  if (now.round > before.round) {
    return fmt::format("round {} begins on {} nodes with {} ranks{}", now.round, now.nodes, now.ranks, why);
  }
  if (now.phase == Phase::gathering && before.phase == Phase::running) {
    return fmt::format("round {} ends: {}", now.round, now.why);
  }
  return now.why;
}

void forget_gone(NodeJob& job, Time now) {
  const milliseconds briefly = kPatience * job.policy.heartbeat_limit;
  std::erase_if(job.nodes, [&](const auto& item) {
    const auto& [ticket, node] = item;
    const auto most = node.report.round == 0 ? briefly : std::max<milliseconds>(briefly, kPatienceWithMembers);
    const bool gone = node.report.stage == Stage::left || now - node.heard > most;
    const bool is_member = std::find(job.members.begin(), job.members.end(), ticket) != job.members.end();
    return gone && node.connection == 0 && !is_member;
  });
}

// ---- what a node is shown

std::string report_for(const NodeJob& job, bool refused) {
  const int round = refused                            ? job.state.forgiven
                    : job.state.phase == Phase::closed ? job.state.round
                                                       : job.state.round - 1;
  const auto found = job.reports.find(round);
  return found == job.reports.end() ? "" : found->second;
}

std::map<Ticket, NodePlace> places_in(const NodeJob& job) {
  std::map<Ticket, NodePlace> places;
  if (job.state.phase != Phase::running) return places;
  NodePlace place;
  for (const Ticket member : job.members) {
    places[member] = place;
    ++place.node;
    place.first_rank += job.nodes.at(member).description.ranks;
  }
  return places;
}

JobView view_for(const NodeJob& job, Ticket ticket, const std::map<Ticket, NodePlace>& places) {
  JobView view;
  view.job = job.state;
  view.replaced = is_replaced(job.state, ticket);
  view.refused = is_refused(job.state, ticket);
  view.report = report_for(job, view.refused);
  const auto place = places.find(ticket);
  if (place == places.end()) return view;
  view.place = place->second;
  view.meeting = job.meeting;
  view.losses = job.losses;
  return view;
}

/// One step: what it changes, and what comes out of it.
class NodeServiceStep {
 public:
  NodeServiceStep(NodeServiceState& state, Time now, const membership::NewToken& new_token)
      : state_(state), now_(now), new_token_(new_token) {}

  void excuse_standstill();
  void take(const membership::Opened& opened);
  void take(const NodeReceived& received);
  void take(const membership::Closed& closed);
  void take(const membership::Tick& tick);

  std::vector<NodeServiceOutput> outputs() { return std::move(outputs_); }

 private:
  void take(ConnectionId id, const NodeHello& hello);
  bool take(NodeJob& job, NodeMember& node, const NodeReport& report);
  bool take(NodeJob& job, NodeMember& node, const RanksEnded& ended);
  bool take(NodeJob& job, NodeMember& node, const RanksMeet& meet);
  bool take(NodeJob& job, NodeMember& node, const RanksLost& lost);
  bool take(NodeJob& job, NodeMember& node, const ReplacementWish& wish);
  bool take(NodeJob& job, NodeMember& node, const NodeHello& hello);
  NodeJob& job_for(const NodeHello& hello);
  std::optional<NodeRefusal> find_refusal(const NodePeer& peer, const NodeHello& hello) const;
  void admit(ConnectionId id, NodeJob& job, Ticket ticket, const NodeHello& hello);
  void refuse(ConnectionId id, NodeRefusal refusal);
  /// Decides on the job, has it saved where it was changed, and sends its nodes what is new to them.
  void advance(NodeJob& job, bool changed);
  /// Sends each node its view, where that is another one than it got last.
  void show(NodeJob& job);

  void send(ConnectionId id, FromNodeService message) { outputs_.emplace_back(SendToNode{id, std::move(message)}); }
  void close(ConnectionId id, std::string reason = {});

  NodeServiceState& state_;
  const Time now_;
  const membership::NewToken& new_token_;
  std::vector<NodeServiceOutput> outputs_;
};

// No launcher could be heard, and none could join, while the service stood still.
void NodeServiceStep::excuse_standstill() {
  const auto before = std::exchange(state_.stepped, now_);
  if (now_ - before < kStandstill) return;
  for (auto& [name, job] : state_.jobs) {
    for (auto* since : {&job.gathering_since, &job.enough_since, &job.lost_since}) {
      if (*since) **since += now_ - before;
    }
    for (auto& [ticket, node] : job.nodes) {
      const bool is_lost = before - node.heard >= job.policy.heartbeat_limit;
      node.heard = is_lost ? node.heard + (now_ - before) : now_;
    }
  }
}

void NodeServiceStep::take(const membership::Opened& opened) {
  auto& peer = state_.peers[opened.connection];
  peer.address = opened.address;
  peer.nonce = new_token_();
  send(opened.connection, NodeGreeting{kNodeProtocol, peer.nonce, !state_.secret.empty()});
}

void NodeServiceStep::take(const NodeReceived& received) {
  const auto found = state_.peers.find(received.connection);
  if (found == state_.peers.end() || found->second.closing) return;
  const NodePeer& peer = found->second;
  if (const auto* hello = std::get_if<NodeHello>(&received.message)) return take(received.connection, *hello);
  if (peer.ticket == 0) fail(ErrorKind::data, "message", "it arrived before the first message (hello) of the launcher");
  auto& job = state_.jobs.at(peer.job);
  auto& node = job.nodes.at(peer.ticket);
  node.heard = now_;
  // A heartbeat that says nothing new is no reason to decide.
  if (std::visit([&](const auto& message) { return take(job, node, message); }, received.message)) advance(job, true);
}

void NodeServiceStep::take(const membership::Closed& closed) {
  const auto found = state_.peers.find(closed.connection);
  if (found == state_.peers.end()) return;
  const auto peer = found->second;
  state_.peers.erase(found);
  const auto job = state_.jobs.find(peer.job);
  if (peer.ticket == 0 || job == state_.jobs.end()) return;
  const auto node = job->second.nodes.find(peer.ticket);
  if (node != job->second.nodes.end() && node->second.connection == closed.connection) node->second.connection = 0;
}

void NodeServiceStep::take(const membership::Tick& /*tick*/) {
  for (auto& [name, job] : state_.jobs) advance(job, false);
}

std::optional<NodeRefusal> NodeServiceStep::find_refusal(const NodePeer& peer, const NodeHello& hello) const {
  if (hello.protocol != kNodeProtocol) {
    return NodeRefusal{fmt::format(
        "it uses protocol {} and the service uses protocol {}: start the same version of lockstep on all nodes",
        hello.protocol, kNodeProtocol)};
  }
  if (!state_.secret.empty() && !is_proof(hello.proof, state_.secret, "node " + hello.life, peer.nonce)) {
    return NodeRefusal{hello.proof.empty()
                           ? "this job has a secret; set LOCKSTEP_STORE_SECRET to the same text on all nodes"
                           : "its secret differs; set LOCKSTEP_STORE_SECRET to the same text on all nodes"};
  }
  if (!state_.only_job.empty() && hello.job != state_.only_job) {
    return NodeRefusal{fmt::format("this service belongs to another job, '{}'", state_.only_job)};
  }
  const auto job = state_.jobs.find(hello.job);
  if (job == state_.jobs.end() || hello.ticket == 0 || job->second.service != hello.service) {
    if (hello.ticket != 0) {
      return NodeRefusal{.reason = "the service that it had joined has ended, and another one has begun",
                         .again = true};
    }
    if (job == state_.jobs.end() || job->second.state.phase != Phase::closed) return std::nullopt;
    return NodeRefusal{.reason = fmt::format("the job of this --rdzv_id has already ended ({}); give a new job an "
                                             "--rdzv_id of its own",
                                             job->second.state.why),
                       .ended = true};
  }
  const auto node = job->second.nodes.find(hello.ticket);
  if (node != job->second.nodes.end() && node->second.life == hello.life) return std::nullopt;
  return NodeRefusal{.reason = "it sent nothing for so long that it is no longer a node of its job", .again = true};
}

void NodeServiceStep::take(ConnectionId id, const NodeHello& hello) {
  const NodePeer& peer = state_.peers.at(id);
  if (peer.ticket != 0) fail(ErrorKind::data, "message", "the launcher sent its first message (hello) twice");
  if (auto refusal = find_refusal(peer, hello)) return refuse(id, std::move(*refusal));
  auto& job = job_for(hello);
  const bool is_new = hello.ticket == 0;
  const Ticket ticket = is_new ? ++job.arrivals : hello.ticket;
  admit(id, job, ticket, hello);
  advance(job, is_new);
}

NodeJob& NodeServiceStep::job_for(const NodeHello& hello) {
  const auto found = state_.jobs.find(hello.job);
  if (found != state_.jobs.end()) return found->second;
  auto& job = state_.jobs[hello.job];
  job.name = hello.job;
  job.service = new_token_();
  job.policy = hello.policy;
  return job;
}

void NodeServiceStep::admit(ConnectionId id, NodeJob& job, Ticket ticket, const NodeHello& hello) {
  auto& node = job.nodes[ticket];
  if (node.connection != 0) close(node.connection, "its launcher has connected again");
  node.description = hello.node;
  node.life = hello.life;
  node.heard = now_;
  node.connection = id;
  node.sent.reset();
  auto& peer = state_.peers.at(id);
  peer.job = job.name;
  peer.ticket = ticket;
  send(id, NodeWelcome{ticket, job.service,
                       state_.secret.empty() ? "" : prove(state_.secret, "node service", hello.nonce)});
}

void NodeServiceStep::refuse(ConnectionId id, NodeRefusal refusal) {
  outputs_.emplace_back(membership::Refusal{state_.peers.at(id).address, refusal.reason});
  send(id, std::move(refusal));
  close(id);
}

bool NodeServiceStep::take(NodeJob& /*job*/, NodeMember& node, const NodeReport& report) {
  const bool changed = node.report != report || !node.current;
  node.report = report;
  node.current = true;
  if (report.stage == Stage::left) {
    send(node.connection, Goodbye{});
    close(node.connection);
  }
  return changed;
}

bool NodeServiceStep::take(NodeJob& job, NodeMember& node, const RanksEnded& ended) {
  if (ended.round != job.state.round || (node.ended && node.ended->round == ended.round)) return false;
  const auto kept = bytes_of_lines(job);
  node.ended = ended;
  shorten(node.ended->ends, kept < kMostLines ? kMostLines - kept : 0);
  return true;
}

bool NodeServiceStep::take(NodeJob& job, NodeMember& node, const RanksMeet& meet) {
  if (!is_first_node(job, node) || meet.round != job.state.round || job.state.phase != Phase::running || job.meeting)
    return false;
  job.meeting = meet.place;
  return true;
}

bool NodeServiceStep::take(NodeJob& job, NodeMember& node, const RanksLost& lost) {
  if (!is_first_node(job, node) || lost.round != job.state.round || job.losses == lost.losses) return false;
  job.losses = lost.losses;
  return true;
}

// The same wish arrives again after a lost connection.
bool NodeServiceStep::take(NodeJob& job, NodeMember& node, const ReplacementWish& wish) {
  const bool is_new = wish.number > node.answer.number;
  if (is_new) {
    node.answer = {wish.number, job.replaced + job.state.restarts < job.policy.max_replacements};
    job.replaced += node.answer.granted ? 1 : 0;
  }
  send(node.connection, node.answer);
  return is_new;
}

bool NodeServiceStep::take(NodeJob& /*job*/, NodeMember& /*node*/, const NodeHello& /*hello*/) { return false; }

void NodeServiceStep::advance(NodeJob& job, bool changed) {
  auto before = job.state;
  for (int i = 0; i < kMostDecisions && decide_once(job, now_, changed); ++i) {
    job.decisions.push_back({now_, describe_decision(job.state, before)});
    if (job.decisions.size() > kLoggedDecisions) job.decisions.pop_front();
    outputs_.emplace_back(
        membership::LogLine{LogLevel::debug, fmt::format("job '{}': {}", job.name, job.decisions.back().text)});
    before = job.state;
  }
  if (changed) outputs_.emplace(outputs_.begin(), SaveJob{job.name});
  const bool any_new = std::any_of(job.nodes.begin(), job.nodes.end(),
                                   [](const auto& item) { return item.second.connection != 0 && !item.second.sent; });
  if (changed || any_new) show(job);
  forget_gone(job, now_);
}

void NodeServiceStep::show(NodeJob& job) {
  const auto places = places_in(job);
  for (auto& [ticket, node] : job.nodes) {
    if (node.connection == 0 || state_.peers.at(node.connection).closing) continue;
    auto view = view_for(job, ticket, places);
    if (node.sent == view) continue;
    send(node.connection, view);
    node.sent = std::move(view);
  }
}

void NodeServiceStep::close(ConnectionId id, std::string reason) {
  const auto found = state_.peers.find(id);
  if (found == state_.peers.end() || found->second.closing) return;
  found->second.closing = true;
  outputs_.emplace_back(membership::Close{id, std::move(reason)});
}

}  // namespace

std::vector<NodeServiceOutput> step(NodeServiceState& state, const NodeServiceInput& input, Time now,
                                    const membership::NewToken& new_token) {
  NodeServiceStep step(state, now, new_token);
  step.excuse_standstill();
  std::visit([&](const auto& one) { step.take(one); }, input);
  return step.outputs();
}

bool is_node(const NodeServiceState& state, ConnectionId connection) {
  const auto found = state.peers.find(connection);
  return found != state.peers.end() && found->second.ticket != 0;
}

int count_users(const NodeServiceState& state, Time now) {
  int users = 0;
  for (const auto& [name, job] : state.jobs) {
    for (const auto& [ticket, node] : job.nodes) {
      users += node.report.stage != Stage::left && is_alive(job, node, now) ? 1 : 0;
    }
  }
  return users;
}

}  // namespace lockstep::cluster::elastic
