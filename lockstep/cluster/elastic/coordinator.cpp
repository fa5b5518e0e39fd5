// The coordinator of an elastic job: heartbeats read from the store, and decisions written there by compare and set.
#include <lockstep/base/error.h>
#include <lockstep/cluster/elastic/coordinator.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace lockstep::cluster::elastic {
namespace {

/// An agent that was stopped and continues within this many times the limit is accepted again.
constexpr int kPatience = 10;

bool all_alive(std::span<const NodeView> nodes) {
  return std::all_of(nodes.begin(), nodes.end(), [](const NodeView& node) { return node.alive; });
}

}  // namespace

void AgentLiveness::expect(Ticket last, Time now) {
  while (last_ < last) entries_[++last_].heard = now;
}

void AgentLiveness::excuse(Time begin, Time end) {
  for (auto& [ticket, entry] : entries_) {
    if (begin - entry.heard < heartbeat_limit_) entry.heard = end;
  }
}

std::vector<Ticket> AgentLiveness::undescribed() const {
  std::vector<Ticket> tickets;
  for (const auto& [ticket, entry] : entries_) {
    if (!entry.description) tickets.push_back(ticket);
  }
  return tickets;
}

std::vector<Ticket> AgentLiveness::followed() const {
  std::vector<Ticket> tickets;
  for (const auto& [ticket, entry] : entries_) {
    if (entry.description && entry.report.stage != Stage::left) tickets.push_back(ticket);
  }
  return tickets;
}

void AgentLiveness::describe(Ticket ticket, NodeDescription description) {
  entries_[ticket].description = std::move(description);
}

void AgentLiveness::hear(Ticket ticket, const std::string& heartbeat, Time now) {
  Entry& entry = entries_[ticket];
  if (entry.heartbeat == heartbeat) return;
  entry.report = parse_report(heartbeat);
  entry.heartbeat = heartbeat;
  entry.heard = now;
}

std::vector<NodeView> AgentLiveness::views(Time now) const {
  std::vector<NodeView> views;
  for (const auto& [ticket, entry] : entries_) {
    if (!entry.description) continue;
    views.push_back({.ticket = ticket,
                     .description = *entry.description,
                     .report = entry.report,
                     .alive = now - entry.heard < heartbeat_limit_,
                     .current = entry.report.heard == coordinator_});
  }
  return views;
}

void AgentLiveness::forget_gone(std::span<const Ticket> members, Time now) {
  std::erase_if(entries_, [&](const auto& item) {
    const auto& [ticket, entry] = item;
    const bool gone = entry.report.stage == Stage::left || now - entry.heard > kPatience * heartbeat_limit_;
    return gone && std::find(members.begin(), members.end(), ticket) == members.end();
  });
}

bool take_replacement(KeyValueStore& store, const Keys& keys, int restarts, int most) {
  if (store.add(keys.replaced(), 1) + restarts <= most) return true;
  store.add(keys.replaced(), -1);  // this agent was not replaced
  return false;
}

using Kind = Decision::Kind;
using std::chrono::milliseconds;

Coordinator::Coordinator(KeyValueStore& store, const Keys& keys, const Policy& policy, Ticket self)
    : store_(store), keys_(keys), policy_(policy), self_(self), liveness_(policy.heartbeat_limit, self) {}

void Coordinator::tick(const JobState& state, const std::string& text, Time now) {
  if (state.phase == Phase::closed) return;
  learn_members(state);
  look(now);
  auto nodes = liveness_.views(now);
  if (state.phase == Phase::running) look_at_lost_ranks(state, nodes);
  const auto decision = without_repetition(
      state, decide(state, members_, nodes, policy_now(state, nodes), waited(state, enough_since_.has_value(), now)));
  JobState next = state;
  switch (decision.kind) {
    case Kind::wait:
      if (!decision.enough) enough_since_.reset();
      if (decision.enough && !enough_since_) enough_since_ = now;
      if (!decision.awaits_taker) lost_since_.reset();
      if (decision.awaits_taker && !lost_since_) lost_since_ = now;
      if (state.awaits == decision.why) return;
      next.awaits = decision.why;
      store_.replace(keys_.state(), text, to_text(next));
      return;
    case Kind::end_round:
      next.phase = Phase::gathering;
      next.why = decision.why;
      break;
    case Kind::replace:
      if (!take_replacement(store_, keys_, state.restarts, policy_.max_replacements))
        return;  // a rank took the last one
      next = replace(state, decision, nodes);
      break;
    case Kind::refuse: next = refuse(state, decision); break;
    case Kind::form: next = form(state, decision, nodes); break;
    case Kind::close: next = close(state, decision); break;
  }
  next.awaits.clear();
  gathering_since_.reset();
  enough_since_.reset();
  lost_since_.reset();
  const bool published = store_.replace(keys_.state(), text, to_text(next));
  if (!published && decision.kind == Kind::replace) store_.add(keys_.replaced(), -1);
}

// Ranks and nodes that were replaced have used some of the restarts.
Policy Coordinator::policy_now(const JobState& state, std::span<const NodeView> nodes) {
  Policy policy = policy_;
  if (state.phase == Phase::gathering && policy.max_restarts > 0) {
    replaced_ = static_cast<int>(std::min<std::int64_t>(store_.add(keys_.replaced(), 0), policy.max_restarts));
    policy.max_restarts -= replaced_;
  }
  if (state.phase == Phase::running && policy.max_replacements > 0 && !all_alive(nodes)) {
    const auto used = std::min<std::int64_t>(store_.add(keys_.replaced(), 0) + state.restarts, policy.max_replacements);
    policy.max_replacements -= static_cast<int>(used);
  }
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
  const auto since = [now](Time begin) { return std::chrono::duration_cast<milliseconds>(now - begin); };
  if (state.phase != Phase::gathering) return {.lost = lost_since_ ? since(*lost_since_) : milliseconds(0)};
  if (!gathering_since_) gathering_since_ = now;
  return {since(*gathering_since_), enough ? since(*enough_since_) : milliseconds(0)};
}

Decision Coordinator::without_repetition(const JobState& state, Decision decision) {
  if (decision.kind != Kind::form || !decision.uses_restart) return decision;
  const auto nodes = ends_of(state);
  const auto death = death_in(nodes);
  repeated_ = is_repeated(nodes) || (death && state.death && repeats(*death, *state.death));
  if (!repeated_) return decision;
  return {.kind = Kind::close, .why = state.why, .failed = true};
}

// Refuses also nodes that would give a running round as many ranks as were refused before.
JobState Coordinator::refuse(const JobState& state, const Decision& decision) {
  JobState next = state;
  next.why = decision.why;
  next.refused.insert(next.refused.end(), decision.refused.begin(), decision.refused.end());
  if (state.phase == Phase::running) return next;
  report(state, ends_of(state), fmt::format("lockstep run: {}\n", decision.why));
  next.refused_ranks.push_back(state.ranks);
  next.forgiven = state.round;
  next.before.clear();
  return next;
}

JobState Coordinator::form(const JobState& state, const Decision& decision, std::span<const NodeView> nodes) {
  JobState next = state;
  next.phase = Phase::running;
  next.formed_by = self_;
  next.formed_at = wall_clock_milliseconds();
  next.nodes = static_cast<int>(decision.members.size());
  next.replaced.clear();
  const auto stays = [&](Ticket member) {
    return std::count(decision.members.begin(), decision.members.end(), member) > 0;
  };
  const bool grows = state.round > 0 && !decision.uses_restart && decision.members.size() > members_.size() &&
                     std::all_of(members_.begin(), members_.end(), stays);
  next.before = grows ? members_ : std::vector<Ticket>();
  ++next.round;
  if (decision.uses_restart) {
    ++next.restarts;
    next.death = death_in(ends_of(state));
    report(state, ends_of(state),
           fmt::format("lockstep run: all ranks are restarted: restart {} of {}\n", next.restarts + replaced_,
                       policy_.max_restarts));
  }
  members_ = decision.members;
  members_of_ = next.round;
  next.ranks = publish_members(next, nodes);
  return next;
}

int Coordinator::publish_members(const JobState& next, std::span<const NodeView> nodes) {
  std::map<Ticket, int> ranks_of;
  for (const NodeView& node : nodes) ranks_of[node.ticket] = node.description.ranks;
  store_.set(keys_.members(next), to_text(members_));
  NodePlace place;
  for (const Ticket member : members_) {
    store_.set(keys_.node_place(next, member), to_text(place));
    ++place.node;
    place.first_rank += ranks_of[member];
  }
  return place.first_rank;
}

void Coordinator::look_at_lost_ranks(const JobState& state, std::vector<NodeView>& nodes) {
  const auto ended = [](const NodeView& node) { return node.report.stage == Stage::ended; };
  if (all_alive(nodes) && std::none_of(nodes.begin(), nodes.end(), ended)) return;
  const auto lost = parse_lost_ranks(store_.get(keys_.service_log(state.round)).value_or(""));
  if (!lost) return;
  const std::set<int> ranks(lost->begin(), lost->end());
  int first = 0;
  for (const Ticket member : members_) {
    const auto node = std::find_if(nodes.begin(), nodes.end(), [&](const auto& view) { return view.ticket == member; });
    if (node == nodes.end()) return;
    node->ranks_known = node->ranks_lost = true;
    for (int rank = first; rank < first + node->description.ranks; ++rank) {
      node->ranks_lost = node->ranks_lost && ranks.contains(rank);
    }
    first += node->description.ranks;
  }
}

// The ranks have had their rendezvous, and use the same place for the next one.
JobState Coordinator::replace(const JobState& state, const Decision& decision, std::span<const NodeView> nodes) {
  JobState next = state;
  next.formed_by = self_;
  next.formed_at = wall_clock_milliseconds();
  next.why = decision.why;
  next.replaced.push_back(decision.lost);
  std::replace(members_.begin(), members_.end(), decision.lost, decision.taker);
  publish_members(next, nodes);
  if (const auto place = store_.get(keys_.rendezvous(state))) store_.set(keys_.rendezvous(next), *place);
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
    const auto* again =
        ", because the ranks died twice in the same way at the same step, which another start would not change";
    after = fmt::format("lockstep run: {} of {} restarts were used{}\n", used, policy_.max_restarts,
                        used == policy_.max_restarts ? "" : (repeated_ ? again : why_no_restart(nodes)));
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

RunOutcome Coordinator::report(const JobState& state, std::span<const NodeEnds> nodes, const std::string& after) {
  auto outcome = judge_all(nodes);
  if (!outcome.report.empty()) store_.set(keys_.report(state.round), outcome.report + after);
  return outcome;
}

}  // namespace lockstep::cluster::elastic
