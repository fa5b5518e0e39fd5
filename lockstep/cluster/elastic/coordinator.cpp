#include <lockstep/base/error.h>
#include <lockstep/cluster/elastic/coordinator.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace lockstep::cluster::elastic {

using Kind = Decision::Kind;
using std::chrono::milliseconds;

Coordinator::Coordinator(KeyValueStore& store, const Keys& keys, const Policy& policy, Ticket self)
    : store_(store), keys_(keys), policy_(policy), self_(self), liveness_(policy.silence, self) {}

void Coordinator::tick(const JobState& state, const std::string& text, Time now) {
  if (state.phase == Phase::closed) return;
  learn_members(state);
  look(now);
  const auto nodes = liveness_.views(now);
  const auto decision =
      decide(state, members_, nodes, policy_now(state), waited(state, enough_since_.has_value(), now));
  JobState next = state;
  switch (decision.kind) {
    case Kind::wait:
      if (!decision.enough) enough_since_.reset();
      if (decision.enough && !enough_since_) enough_since_ = now;
      return;
    case Kind::end_round:
      next.phase = Phase::gathering;
      next.why = decision.why;
      break;
    case Kind::form: next = form(state, decision, nodes); break;
    case Kind::close: next = close(state, decision); break;
  }
  gathering_since_.reset();
  enough_since_.reset();
  store_.replace(keys_.state(), text, to_text(next));
}

// A rank that was replaced has used one of the restarts.
Policy Coordinator::policy_now(const JobState& state) {
  Policy policy = policy_;
  if (state.phase != Phase::gathering || policy.max_restarts == 0) return policy;
  replaced_ = static_cast<int>(std::min<std::int64_t>(store_.add(keys_.replaced(), 0), policy.max_restarts));
  policy.max_restarts -= replaced_;
  return policy;
}

void Coordinator::learn_members(const JobState& state) {
  if (state.round == members_of_) return;
  const auto text = store_.get(keys_.members(state));
  if (!text)
    fail(ErrorKind::data, "rendezvous", "{} has lost the list of nodes of round {}", store_.describe(), state.round);
  members_ = parse_members(*text);
  members_of_ = state.round;
}

void Coordinator::look(Time now) {
  liveness_.expect(store_.add(keys_.arrivals(), 0), now);
  liveness_.forget_gone(members_, now);
  const auto read = [this](const std::vector<Ticket>& tickets, auto key_of) {
    std::vector<std::string> keys;
    keys.reserve(tickets.size());
    for (const Ticket ticket : tickets) keys.push_back(key_of(ticket));
    return store_.get_all(keys);
  };
  const auto undescribed = liveness_.undescribed();
  const auto descriptions = read(undescribed, [this](Ticket ticket) { return keys_.node(ticket); });
  for (std::size_t i = 0; i < undescribed.size(); ++i) {
    if (descriptions[i]) liveness_.describe(undescribed[i], parse_description(*descriptions[i]));
  }
  const auto followed = liveness_.followed();
  const auto heartbeats = read(followed, [this](Ticket ticket) { return keys_.heartbeat(ticket); });
  for (std::size_t i = 0; i < followed.size(); ++i) {
    if (heartbeats[i]) liveness_.hear(followed[i], *heartbeats[i], now);
  }
}

Waited Coordinator::waited(const JobState& state, bool enough, Time now) {
  if (state.phase != Phase::gathering) return {};
  if (!gathering_since_) gathering_since_ = now;
  const auto since = [now](Time begin) { return std::chrono::duration_cast<milliseconds>(now - begin); };
  return {since(*gathering_since_), enough ? since(*enough_since_) : milliseconds(0)};
}

JobState Coordinator::form(const JobState& state, const Decision& decision, std::span<const NodeView> nodes) {
  JobState next = state;
  next.phase = Phase::running;
  next.formed_by = self_;
  next.formed_at = wall_clock_milliseconds();
  next.nodes = static_cast<int>(decision.members.size());
  next.ranks = 0;
  ++next.round;
  if (decision.uses_restart) {
    ++next.restarts;
    report(state, ends_of(state),
           fmt::format("lockstep run: all ranks are started anew: restart {} of {}\n", next.restarts + replaced_,
                       policy_.max_restarts));
  }
  std::map<Ticket, int> ranks_of;
  for (const NodeView& node : nodes) ranks_of[node.ticket] = node.description.ranks;
  store_.set(keys_.members(next), to_text(decision.members));
  for (int node = 0; node < next.nodes; ++node) {
    const Ticket ticket = decision.members[static_cast<std::size_t>(node)];
    store_.set(keys_.node_place(next, ticket), to_text(NodePlace{node, next.ranks}));
    next.ranks += ranks_of[ticket];
  }
  members_ = decision.members;
  members_of_ = next.round;
  return next;
}

JobState Coordinator::close(const JobState& state, const Decision& decision) {
  JobState next = state;
  next.phase = Phase::closed;
  next.why = decision.why;
  next.failed = decision.failed;
  if (!decision.failed) return next;
  const auto nodes = ends_of(state);
  std::string after;
  if (policy_.max_restarts > 0) {
    const int used = state.restarts + replaced_;
    after = fmt::format("lockstep run: {} of {} restarts were used{}\n", used, policy_.max_restarts,
                        used < policy_.max_restarts ? why_no_restart(nodes) : "");
  }
  const auto outcome = report(state, nodes, after);
  next.exit_code = std::max(1, outcome.exit_code);
  next.first_failed = outcome.first_failed;
  return next;
}

std::vector<NodeEnds> Coordinator::ends_of(const JobState& state) {
  std::vector<NodeEnds> nodes;
  for (const Ticket member : members_) {
    if (const auto text = store_.get(keys_.ends(state.round, member))) nodes.push_back(parse_ends(*text));
  }
  return nodes;
}

Outcome Coordinator::report(const JobState& state, std::span<const NodeEnds> nodes, const std::string& after) {
  auto outcome = judge_all(nodes);
  if (!outcome.report.empty()) store_.set(keys_.report(state.round), outcome.report + after);
  return outcome;
}

}  // namespace lockstep::cluster::elastic
