// The model of training: steps that need the ranks of all places of a round, and the log of those that are lost.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "simulation/launchers/world.h"

namespace lockstep::simulation::launchers {

using namespace cluster::elastic;  // the state of the job

void Life::train() {
  timeline_.after(circumstances_.step, [this] {
    std::map<int, std::vector<int>> rounds;
    for (std::size_t i = 0; i < launchers_.size(); ++i) {
      const auto& one = *launchers_[i];
      if (one.process.alive && one.process.blocked_until <= timeline_.now() && one.ranks == Ranks::running &&
          one.wished == 0)
        rounds[one.round].push_back(static_cast<int>(i));
    }
    for (const auto& [round, members] : rounds) {
      if (has_all_places(round, members)) make_step(round, members);
    }
    if (!all_gone()) train();
  });
}

// All places of a round have ranks: they make a step together.
bool Life::has_all_places(int round, const std::vector<int>& members) {
  std::map<int, int> places;  // who is in each
  int nodes = 0;
  for (const int index : members) {
    const auto& view = *launcher(index).session.view;
    const bool has_lost_place = view.job.round == round && view.job.phase == Phase::running && !view.place;
    if (has_lost_place && is_well(launcher(index)))
      violate(fmt::format("the ranks of launcher {} go on without a place", index));
    if (view.job.round != round || !view.place) continue;
    // A launcher that was stopped has a view of the past until it is connected again.
    const auto [other, is_alone] = places.emplace(view.place->node, index);
    if (!is_alone && is_well(launcher(index)) && is_well(launcher(other->second)))
      violate(fmt::format("two nodes compute in place {}", view.place->node));
    nodes = std::max(nodes, view.job.nodes);
  }
  return static_cast<int>(places.size()) == nodes && nodes != 0;
}

void Life::make_step(int round, const std::vector<int>& members) {
  if (round < newest_round_) return check_old_round(round, members);
  if (round > newest_round_) {
    steps_ = checkpoint_;
    newest_since_ = timeline_.now();
  }
  newest_round_ = round;
  if (++steps_ % 5 == 0) checkpoint_ = steps_;
  if (steps_ < circumstances_.steps) return;
  for (const int index : members) {
    deliver(launcher(index).process, [this, index, life = launcher(index).life] {
      if (launcher(index).life == life && launcher(index).ranks == Ranks::running) ranks_ended(index, {0, 0}, 0);
    });
  }
}

// The job service of node 0: which ranks it has lost.
void Life::report_lost_ranks() {
  timeline_.after(seconds(1), [this] {
    if (all_gone()) return;
    for (std::size_t i = 0; i < launchers_.size(); ++i) {
      auto& first = *launchers_[i];
      const auto& view = first.session.view;
      if (!first.process.alive || first.process.blocked_until > timeline_.now() || first.ranks != Ranks::running)
        continue;
      if (!view || !view->place || view->place->node != 0 || view->job.round != first.round) continue;
      const cluster::RankLosses losses{.ranks = lost_places(first.round, view->job.nodes)};
      if (std::exchange(first.losses, losses) != losses)
        give_launcher(static_cast<int>(i), RanksLost{first.round, losses});
    }
    report_lost_ranks();
  });
}

std::vector<int> Life::lost_places(int round, int nodes) const {
  std::set<int> here;
  for (const auto& each : launchers_) {
    const auto& view = each->session.view;
    if (each->process.alive && each->ranks == Ranks::running && each->round == round && view && view->place)
      here.insert(view->place->node);
  }
  std::vector<int> lost;
  for (int node = 0; node < nodes; ++node) {
    if (!here.contains(node)) lost.push_back(node);
  }
  return lost;
}

}  // namespace lockstep::simulation::launchers
