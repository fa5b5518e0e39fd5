// The rules of an elastic job, gathering and running: forming a round, replacing, refusing, restarting, closing.
#include <lockstep/cluster/elastic/decide.h>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace lockstep::cluster::elastic {
namespace {

using Kind = Decision::Kind;

double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1000; }

bool has_left(const NodeView& node) { return node.report.stage == Stage::left; }
bool is_lost(const NodeView& node) { return !node.alive && !has_left(node); }

/// The conditions that the rules check, with the members of the last round kept apart from the other nodes.
class Decider {
 public:
  Decider(const JobState& state, std::span<const Ticket> members, std::span<const NodeView> nodes, const Policy& policy,
          const Waited& waited)
      : state_(state), policy_(policy), waited_(waited) {
    for (std::size_t i = 0; i < members.size(); ++i) place_[members[i]] = i;
    for (const NodeView& node : nodes) (place_.contains(node.ticket) ? members_ : others_).push_back(&node);
  }

  Decision while_running() const;
  Decision while_gathering() const;

 private:
  using Nodes = std::vector<const NodeView*>;

  bool of_this_round(const NodeView& node) const { return node.report.round == state_.round; }
  bool has_failed(const NodeView& node) const {
    return of_this_round(node) && node.report.failed && state_.forgiven < state_.round;
  }
  bool is_candidate(const NodeView& node) const {
    return node.alive && node.current && node.report.stage == Stage::waiting && !is_refused(state_, node.ticket);
  }
  bool is_settled(const NodeView& node) const {
    return !node.alive || has_left(node) || (of_this_round(node) && node.report.stage == Stage::waiting);
  }
  const NodeView* first(const Nodes& nodes, auto condition) const {
    const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const NodeView* node) { return condition(*node); });
    return found == nodes.end() ? nullptr : *found;
  }

  bool has_ended(const NodeView& node) const { return of_this_round(node) && node.report.stage == Stage::ended; }
  std::string loss_of(const NodeView& node) const {
    return fmt::format("{} was lost: no heartbeat for {:.1f} s", node.description.host,
                       seconds(policy_.heartbeat_limit));
  }

  bool is_done() const;
  std::optional<Decision> replace(const NodeView& lost) const;
  const NodeView* taker_of(const NodeView& lost) const;
  Nodes candidates() const;
  Decision join(const NodeView& joiner) const;
  std::optional<Decision> refuse_new(const NodeView& failed) const;
  bool is_refused_number(int ranks) const {
    return std::find(state_.refused_ranks.begin(), state_.refused_ranks.end(), ranks) != state_.refused_ranks.end();
  }
  Decision close_failed(std::string why) const { return {.kind = Kind::close, .why = std::move(why), .failed = true}; }
  Decision wait_or_give_up(const Nodes& candidates) const;
  void leave_out_refused(Decision& decision, const Nodes& candidates) const;
  Decision form(const Nodes& candidates, bool uses_restart) const;

  const JobState& state_;
  const Policy& policy_;
  const Waited& waited_;
  std::map<Ticket, std::size_t> place_;  ///< the places of the last round's members
  Nodes members_;
  Nodes others_;
};

Decision Decider::while_running() const {
  const auto end_round = [](std::string why) { return Decision{.kind = Kind::end_round, .why = std::move(why)}; };
  if (const auto* node = first(members_, has_left)) {
    return end_round(fmt::format("{} left ({})", node->description.host, node->report.note));
  }
  const auto* failed = first(members_, [this](const NodeView& view) { return has_failed(view); });
  if (failed == nullptr && is_done()) return {.kind = Kind::close, .why = "all ranks ended well"};
  if (const auto* node = first(members_, is_lost)) {
    const auto replaced = failed == nullptr ? replace(*node) : std::nullopt;
    return replaced ? *replaced : end_round(loss_of(*node));
  }
  if (failed != nullptr) return end_round(fmt::format("a rank on {} failed", failed->description.host));
  const auto ended = [this](const NodeView* node) { return has_ended(*node); };
  const bool room = static_cast<int>(members_.size()) < policy_.max_nodes;
  if (!room || std::any_of(members_.begin(), members_.end(), ended)) return {};
  if (const auto* node = first(others_, [this](const NodeView& view) { return is_candidate(view); })) {
    return join(*node);
  }
  return {};
}

Decision Decider::join(const NodeView& joiner) const {
  const int ranks = state_.ranks + joiner.description.ranks;
  if (!is_refused_number(ranks))
    return {.kind = Kind::end_round, .why = fmt::format("{} joins", joiner.description.host)};
  return {.kind = Kind::refuse, .why = state_.why, .refused = {joiner.ticket}};
}

// The node that runs the service cannot leave without ending the job.
std::optional<Decision> Decider::refuse_new(const NodeView& failed) const {
  if (state_.before.empty()) return std::nullopt;
  Decision decision{.kind = Kind::refuse};
  std::string hosts;
  for (const NodeView* node : members_) {
    if (std::find(state_.before.begin(), state_.before.end(), node->ticket) != state_.before.end()) continue;
    if (node->description.runs_service) return std::nullopt;
    decision.refused.push_back(node->ticket);
    hosts += (hosts.empty() ? "" : ", ") + node->description.host;
  }
  decision.why = fmt::format(
      "{} cannot join: a rank on {} reports that its command line, configuration or environment does not fit {} "
      "ranks; the job goes on without it",
      hosts, failed.description.host, state_.ranks);
  return decision;
}

// Ranks that were lost after the last operation that needs all ranks are not needed by any other rank.
bool Decider::is_done() const {
  const auto ended = [this](const NodeView* node) { return has_ended(*node); };
  const auto ended_or_lost = [&](const NodeView* node) { return has_ended(*node) || node->ranks_lost; };
  return std::any_of(members_.begin(), members_.end(), ended) &&
         std::all_of(members_.begin(), members_.end(), ended_or_lost);
}

// The job service and its registered ranks are on node 0 and are lost with it. The service may need more time to detect
// lost ranks than the agents need to detect a lost launcher.
std::optional<Decision> Decider::replace(const NodeView& lost) const {
  if (policy_.max_replacements <= 0 || !lost.ranks_known || place_.at(lost.ticket) == 0) return std::nullopt;
  if (first(members_, [this](const NodeView& node) { return has_ended(node); }) != nullptr) return std::nullopt;
  const auto* taker = taker_of(lost);
  if (taker != nullptr && lost.ranks_lost) {
    return Decision{.kind = Kind::replace,
                    .why = fmt::format("{}; {} takes its place, and the other ranks keep running", loss_of(lost),
                                       taker->description.host),
                    .lost = lost.ticket,
                    .taker = taker->ticket};
  }
  const auto alive = std::count_if(members_.begin(), members_.end(), [](const NodeView* node) { return node->alive; });
  const bool others_suffice = taker == nullptr && alive >= policy_.min_nodes;
  if (others_suffice || waited_.lost >= policy_.replace_timeout) return std::nullopt;
  return Decision{
      .why = fmt::format("{} has sent no heartbeat for {:.1f} s; the other ranks wait until it is back or another "
                         "node takes its place, for at most {:.0f} s (replace_timeout)",
                         lost.description.host, seconds(policy_.heartbeat_limit), seconds(policy_.replace_timeout)),
      .awaits_taker = true};
}

const NodeView* Decider::taker_of(const NodeView& lost) const {
  return first(others_, [&](const NodeView& node) {
    const bool same_number = !policy_.ranks_given || node.description.given_rank == lost.description.given_rank;
    const bool same_ranks = node.description.ranks == lost.description.ranks;
    const bool was_here = of_this_round(node) || is_replaced(state_, node.ticket);
    return is_candidate(node) && !was_here && same_ranks && same_number;
  });
}

// Members of the last round keep their order, so that ranks keep their places; then the one that runs the service
// follows.
Decider::Nodes Decider::candidates() const {
  Nodes found;
  for (const Nodes* nodes : {&members_, &others_}) {
    for (const NodeView* node : *nodes) {
      if (is_candidate(*node)) found.push_back(node);
    }
  }
  const auto order = [this](const NodeView* node) {
    const auto place = place_.find(node->ticket);
    return std::tuple(node->description.given_rank.value_or(std::numeric_limits<int>::max()),
                      place == place_.end() ? place_.size() : place->second, !node->description.runs_service,
                      node->ticket);
  };
  std::sort(found.begin(), found.end(), [&](const auto* a, const auto* b) { return order(a) < order(b); });
  return found;
}

Decision Decider::while_gathering() const {
  const auto* unsettled = first(members_, [this](const NodeView& node) { return !is_settled(node); });
  if (unsettled != nullptr) return {};
  const auto gone = [](const NodeView& node) { return has_left(node) || is_lost(node); };
  const auto* failed = first(members_, [this](const NodeView& node) { return has_failed(node); });
  const auto* fatal = first(members_, [this](const NodeView& node) { return has_failed(node) && node.report.fatal; });
  const bool uses_restart = failed != nullptr && (fatal != nullptr || first(members_, gone) == nullptr);
  if (fatal != nullptr) {
    if (auto refusal = refuse_new(*fatal)) return *refusal;
  }
  if (uses_restart && (fatal != nullptr || state_.restarts >= policy_.max_restarts)) return close_failed(state_.why);

  const Nodes found = candidates();
  const auto count = static_cast<int>(found.size());
  if (count < policy_.min_nodes) return wait_or_give_up(found);
  const bool called = count >= policy_.max_nodes || state_.round > 0 || waited_.enough >= policy_.last_call;
  if (!called) return {.enough = true};
  return form(found, uses_restart);
}

Decision Decider::wait_or_give_up(const Nodes& candidates) const {
  if (waited_.gathering < policy_.join_timeout) return {};
  std::string hosts;
  for (const NodeView* node : candidates) hosts += (hosts.empty() ? "" : ", ") + node->description.host;
  return close_failed(fmt::format(
      "only {} of at least {} nodes {} within {:.1f} s (join_timeout): {}. Start the others, or lower --nnodes",
      candidates.size(), policy_.min_nodes, state_.round == 0 ? "joined" : "joined again",
      seconds(policy_.join_timeout), hosts.empty() ? "none" : hosts));
}

// Nodes that were in the last round stay.
void Decider::leave_out_refused(Decision& decision, const Nodes& candidates) const {
  auto& members = decision.members;
  const auto ranks = [&] {
    int sum = 0;
    for (const NodeView* node : candidates) {
      const bool chosen = std::find(members.begin(), members.end(), node->ticket) != members.end();
      sum += chosen ? node->description.ranks : 0;
    }
    return sum;
  };
  while (static_cast<int>(members.size()) > policy_.min_nodes && !place_.contains(members.back()) &&
         is_refused_number(ranks())) {
    members.pop_back();
  }
}

Decision Decider::form(const Nodes& candidates, bool uses_restart) const {
  Decision decision{.kind = Kind::form, .why = "", .uses_restart = uses_restart};
  std::set<int> given;
  for (const NodeView* node : candidates) {
    const auto rank = node->description.given_rank;
    // A restarted agent is present together with the agent that it replaces, until that one is detected as lost.
    if (policy_.ranks_given && rank && !given.insert(*rank).second) {
      if (waited_.gathering < policy_.join_timeout) return {.enough = true};
      return close_failed(
          fmt::format("several nodes were started with --node_rank {}, {} among them", *rank, node->description.host));
    }
    if (static_cast<int>(decision.members.size()) < policy_.max_nodes) decision.members.push_back(node->ticket);
  }
  leave_out_refused(decision, candidates);
  return decision;
}

}  // namespace

Decision decide(const JobState& state, std::span<const Ticket> members, std::span<const NodeView> nodes,
                const Policy& policy, const Waited& waited) {
  if (state.phase == Phase::closed) return {};
  for (const NodeView& node : nodes) {
    if (!node.description.runs_service || !has_left(node)) continue;
    return {.kind = Kind::close,
            .why = fmt::format("{} left ({}), and the job ends with the launcher that runs its service; with "
                               "--rdzv_backend etcd the others go on after such a signal",
                               node.description.host, node.report.note),
            .failed = true};
  }
  const Decider decider(state, members, nodes, policy, waited);
  return state.phase == Phase::running ? decider.while_running() : decider.while_gathering();
}

}  // namespace lockstep::cluster::elastic
