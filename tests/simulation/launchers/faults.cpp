// The faults of a simulated life of launchers, at random times.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "simulation/launchers/world.h"

namespace lockstep::simulation::launchers {

using namespace cluster::elastic;  // the messages

void Life::plan_faults() {
  for (int kind = 0; kind < kFaults; ++kind) {
    for (int i = 0; i < circumstances_.rates[static_cast<std::size_t>(kind)]; ++i) {
      auto& chance = kind == static_cast<int>(Fault::clock_jump) ? clocks_ : trouble_;
      const auto when = milliseconds(chance.below(static_cast<int>(circumstances_.faults_for.count()) + 1));
      timeline_.after(when, [this, kind] { strike(static_cast<Fault>(kind)); });
    }
  }
}

void Life::count_fault(Fault fault, const std::string& what) {
  ++outcome_.faults[name(fault)];
  note("FAULT: " + what);
}

int Life::living_launcher(Chance& chance) {
  std::vector<int> living;
  for (std::size_t i = 0; i < launchers_.size(); ++i) {
    if (launchers_[i]->process.alive && !launchers_[i]->odd) living.push_back(static_cast<int>(i));
  }
  return living.empty() ? -1 : living[static_cast<std::size_t>(chance.below(static_cast<int>(living.size())))];
}

void Life::jump_clock() {
  const int index = living_launcher(clocks_);
  if (index < 0) return;
  const auto time = clocks_.time(milliseconds(5000), milliseconds(600000));
  count_fault(Fault::clock_jump, fmt::format("the clock of launcher {} jumps by {} ms", index, time.count()));
  auto& one = launcher(index);
  one.ahead += time;
  // One that has no connection at that time has waited for so long.
  if (!one.session.connected) one.disconnected = std::max(one.disconnected, clock_of(one));
}

void Life::strike(Fault fault) {
  if (fault == Fault::clock_jump) return jump_clock();
  const int index = living_launcher(trouble_);
  if (index < 0) return;
  auto& one = launcher(index);
  last_fault_ = timeline_.now();
  constexpr std::array kLosing{Fault::kill, Fault::pause, Fault::part, Fault::leave, Fault::etcd_away, Fault::cut};
  if (std::ranges::find(kLosing, fault) != kLosing.end()) ++lost_;
  const auto counted = [&](const std::string& what) { count_fault(fault, what); };
  switch (fault) {
    case Fault::kill: {
      counted(fmt::format("launcher {} is killed", index));
      const bool comes_back = (trouble_.happens(700) || circumstances_.survives) && !one.held_here;
      end_launcher(index, -9, "killed");
      if (!comes_back) return;
      ++coming_;
      return timeline_.after(trouble_.time(milliseconds(100), milliseconds(10000)), [this] {
        --coming_;
        start_launcher(false);
      });
    }
    case Fault::pause: {
      const auto time = trouble_.time(milliseconds(100), milliseconds(90000));
      counted(fmt::format("launcher {} is stopped for {} ms", index, time.count()));
      one.troubled = std::max(one.troubled, timeline_.now() + time);
      return block(one.process, time);
    }
    case Fault::cut:
      if (!one.wire) return;
      counted(fmt::format("the connection of launcher {} is reset", index));
      return deliver(one.process, [this, wire = *one.wire] { close_at_launcher(wire); });
    case Fault::part:
      counted(fmt::format("the host of launcher {} is cut off", index));
      parted_[index] =
          std::max(parted_[index], timeline_.now() + trouble_.time(milliseconds(500), milliseconds(60000)));
      one.troubled = std::max(one.troubled, parted_[index]);
      if (one.service_here != 0) service_troubled_ = std::max(service_troubled_, parted_[index]);
      return;
    case Fault::fail:
      if (one.ranks != Ranks::running) return;
      counted(fmt::format("a rank of launcher {} fails", index));
      return deliver(one.process, [this, index, life = one.life] {
        if (launcher(index).life != life || launcher(index).ranks != Ranks::running) return;
        ++fails_;
        ranks_ended(index, {3, 0}, 0);
      });
    case Fault::lose:
      if (one.ranks != Ranks::running || one.wished != 0) return;
      counted(fmt::format("a rank of launcher {} is lost", index));
      return deliver(one.process, [this, index, life = one.life] {
        auto& loser = launcher(index);
        if (loser.life != life || loser.ranks != Ranks::running || loser.wished != 0) return;
        ++wishes_;
        give_session(index, NodeWish{});
        loser.wished = loser.session.wishes;
      });
    case Fault::leave:
      if (one.leaving) return;
      counted(fmt::format("launcher {} gets SIGTERM", index));
      return deliver(one.process, [this, index] {
        auto& leaver = launcher(index);
        if (leaver.leaving) return;
        leaver.ranks = Ranks::none;
        ++leaver.life;
        farewell(index, 143);
      });
    case Fault::join:
      counted("a launcher comes late");
      start_launcher(false);
      return;
    case Fault::etcd_away:
      if (!circumstances_.etcd) return;
      counted("etcd does not answer");
      service_troubled_ = std::max(service_troubled_, timeline_.now() + seconds(60));
      away_until_ = std::max(away_until_, timeline_.now() + trouble_.time(milliseconds(500), milliseconds(30000)));
      // A new leader of etcd extends all leases.
      lease_until_ = std::max(lease_until_, away_until_ + circumstances_.lease);
      return;
    case Fault::lost_answer:
      if (!circumstances_.etcd) return;
      counted("an answer of etcd is lost");
      lose_next_ = true;
      return;
    case Fault::stranger: counted("a strange launcher"); return start_stranger();
    case Fault::clock_jump: return;
  }
}

// A launcher of another secret, or one that takes another's number.
void Life::start_stranger() {
  const int index = static_cast<int>(launchers_.size());
  auto& one = *launchers_.emplace_back(std::make_unique<Launcher>());
  one.odd = true;
  one.session.facts = facts({"stranger", 1, false, std::nullopt}, "open barley");
  if (!circumstances_.secret) {
    one.session.ticket = 1;
    one.session.service = names_.token();
    // Or it has the name of the service, and not the life of the launcher whose number it takes.
    if (trouble_.happens(500)) one.session.service = launchers_.front()->session.service;
  }
  for (const auto& [incarnation, service] : services_) {
    if (service.serves) return connect(index, incarnation);
  }
}

}  // namespace lockstep::simulation::launchers
