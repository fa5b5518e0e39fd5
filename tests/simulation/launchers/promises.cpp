// The promises of docs/reliability.md for launchers, each compared with what launchers get and with what their ranks
// do.
#include <lockstep/base/text.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "simulation/launchers/world.h"

namespace lockstep::simulation::launchers {

using namespace cluster::elastic;  // the messages, and the state of the job

/// Whether it does what it should, and the service has had the time to see that.
bool Life::is_well(const Launcher& one) const {
  const auto most = kGrace + seconds(4) + circumstances_.policy.heartbeat_limit;
  return one.process.alive && one.session.connected && timeline_.now() - one.troubled > most &&
         timeline_.now() - service_troubled_ > most;
}

void Life::check_state(const NodeJob& job, Service& service) {
  const auto& state = job.state;
  const bool is_newest = !circumstances_.etcd || holds_key(service);
  if (state.restarts > job.policy.max_restarts)
    violate(fmt::format("{} restarts of {}", state.restarts, job.policy.max_restarts));
  if (job.replaced > 0 && job.replaced + state.restarts > std::max(job.policy.max_replacements, state.restarts))
    violate(fmt::format("{} replacements and {} restarts of {}", job.replaced, state.restarts,
                        job.policy.max_replacements));
  if (state.round > round_) {
    // A round after a failure, without a node that was lost or has left, is a restart of all.
    if (state.round == round_ + 1 && failed_) ++restarted_;
    check_ranks_ended(job);
    round_ = state.round;
  }
  failed_ = state.phase == Phase::gathering && state.why.starts_with("a rank on");
  if (restarted_ > job.policy.max_restarts + lost_)
    violate(fmt::format("all ranks were started again {} times", restarted_));
  auto& of_round = replaced_nodes_[state.round];
  of_round = std::max(of_round, static_cast<int>(state.replaced.size()));
  int nodes_replaced = 0;
  for (const auto& [round, number] : replaced_nodes_) nodes_replaced += number;
  if (job.replaced > wishes_ + nodes_replaced)
    violate(fmt::format("{} replacements, and {} were wanted", job.replaced, wishes_ + nodes_replaced));
  if (job.replaced < grants_ && is_newest)
    violate(fmt::format("{} replacements are counted of {}", job.replaced, grants_));
  if (state.restarts > fails_) violate(fmt::format("{} restarts, and {} ranks have failed", state.restarts, fails_));
  check_lost(job, service.why);
  const std::set<Ticket> unique(job.members.begin(), job.members.end());
  if (unique.size() != job.members.size()) violate("a node has two places");
  if (state.phase == Phase::running && static_cast<int>(job.members.size()) > job.policy.max_nodes)
    violate("a round has too many nodes");
  if (state.phase == Phase::running && static_cast<int>(job.members.size()) < job.policy.min_nodes)
    violate("a round has too few nodes");
}

// A new round begins when the ranks of the last one have ended.
void Life::check_ranks_ended(const NodeJob& job) {
  for (const auto& [ticket, node] : job.nodes) {
    for (std::size_t i = 0; i < launchers_.size(); ++i) {
      const auto& one = *launchers_[i];
      const bool is_it = one.session.ticket == ticket && one.session.facts.life == node.life;
      if (is_it && is_well(one) && one.ranks != Ranks::none)
        violate(fmt::format("round {} begins while the ranks of launcher {} run", job.state.round, i));
    }
  }
}

// No launcher is lost that could be heard.
void Life::check_lost(const NodeJob& job, std::string& why) {
  if (std::exchange(why, job.state.why) == job.state.why) return;
  const auto end = job.state.why.find(" was lost: no heartbeat");
  if (end == std::string::npos) return;
  const auto number = parse_integer(job.state.why.substr(4, end - 4));
  if (!number) return;
  const auto& one = launcher(static_cast<int>(*number));
  const auto now = timeline_.now();
  if (one.process.alive && one.session.connected && now - one.troubled > job.policy.heartbeat_limit + seconds(3) &&
      now - service_troubled_ > job.policy.heartbeat_limit + seconds(3))
    violate(fmt::format("launcher {} counts as lost, and nothing is wrong with it", *number));
}

// With etcd, no service forgets a launcher that was there a moment ago.
void Life::check_refusal(int index, const FromNodeService& message) {
  const auto* refusal = std::get_if<NodeRefusal>(&message);
  const auto& one = launcher(index);
  if (refusal == nullptr || !refusal->again || one.odd || one.leaving || !circumstances_.etcd) return;
  if (timeline_.now() - one.delivered < 4 * circumstances_.policy.heartbeat_limit &&
      timeline_.now() - one.process.blocked_until > seconds(60))
    violate(fmt::format("launcher {} is forgotten: {}", index, refusal->reason));
}

// What a launcher has seen is not forgotten, by whatever service.
void Life::check_view(int index, const JobView& view) {
  auto& one = launcher(index);
  const auto& job = view.job;
  const auto now = std::tuple(job.round, job.restarts, job.replaced.size(), job.phase == Phase::closed);
  const auto& [round, restarts, replaced, closed] = one.sent;
  const bool back = job.round < round || job.restarts < restarts || (closed && job.phase != Phase::closed) ||
                    (job.round == round && job.replaced.size() < replaced);
  if (back) violate(fmt::format("launcher {} sees round {} after round {}", index, job.round, round));
  one.sent = now;
  if (job.phase != Phase::closed) return;
  if (closed_ && (job.exit_code != closed_->exit_code || job.failed != closed_->failed))
    violate("the job has ended in two ways");
  closed_ = job;
  if (job.why.starts_with("a rank on") && view.report.empty()) violate("the report of the failure is lost");
}

// Nodes that are all cut off from the service, and not from each other, go on until their launchers end them; and so do
// those of launchers that were stopped.
void Life::check_old_round(int round, const std::vector<int>& members) {
  const auto most = circumstances_.limit + kGrace + seconds(1);
  const bool troubled =
      std::ranges::any_of(members, [&](int index) { return timeline_.now() - launcher(index).troubled < most; });
  if (!troubled && timeline_.now() > newest_since_ + most)
    violate(fmt::format("round {} still makes steps after round {}", round, newest_round_));
}

void Life::check_end() {
  if (!all_gone()) {
    std::string left;
    for (std::size_t i = 0; i < launchers_.size(); ++i) {
      if (launchers_[i]->process.alive && !launchers_[i]->odd) left += fmt::format(" {}", i);
    }
    return violate("long after the last fault there are launchers" + left);
  }
  // Of those that saw the end, none may be left to report it.
  if (!closed_ && saved_) closed_ = read_job(*saved_, timeline_.now()).state;
  const bool ended_well = closed_ && closed_->phase == Phase::closed && !closed_->failed;
  if (circumstances_.completes && !ended_well) return violate("the job could have been completed, and was not");
  if (ended_well && steps_ < circumstances_.steps) violate("the job has ended well, and is not complete");
}

}  // namespace lockstep::simulation::launchers
