// The promises of docs/reliability.md, each compared with what the service does, and with what its workers really are.
#include <fmt/format.h>

#include "simulation/world.h"

namespace lockstep::simulation {

using namespace membership;  // the outputs

// Members keep their places in the list; a place may get another process. One that reconnects keeps its generation.
void Life::check_places() {
  const auto& members = state_->membership.members;
  places_.resize(members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto& member = members[i];
    const auto& before = places_[i];
    // Whoever the saved state has in a place makes way for the holder of that place in a generation that was not saved.
    const bool makes_way = member.generation > before.generation;
    if (before.life != member.life && before.connected && !makes_way) check_replaced(before.life);
    if (before.life == member.life && member.generation < before.generation)
      violate(fmt::format("'{}' has connected again, and is no member of generation {} any more", member.node_id,
                          before.generation));
    if (before.life != member.life && before.generation > 0 && member.generation == 0) {
      const auto* one = find_life(member.life);
      const bool computes = one != nullptr && one->doing == Doing::computing && !one->session.leave &&
                            one->place->generation >= state_->membership.generation &&
                            one->session.job == state_->membership.job;
      if (computes)
        violate(fmt::format("'{}', which computes in generation {}, is admitted without its place", member.node_id,
                            one->place->generation));
    }
    places_[i] = {member.node_id, member.life, member.generation, member.link == membership::Link::open};
  }
}

Worker* Life::find_life(const std::string& life) {
  const auto found = std::ranges::find_if(workers_, [&](const auto& one) { return one->session.facts.life == life; });
  return found == workers_.end() ? nullptr : found->get();
}

/// Whether it does what it should, and the service can see that.
bool Life::is_well(const Worker& one, milliseconds heard_within) {
  if (!one.process.alive || one.hung || !one.wire || one.session.leave) return false;
  const auto* wire = find_wire(*one.wire);
  const auto since = timeline_.now() - heard_within;
  return wire != nullptr && wire->at_service && wire->service == incarnation_ && one.delivered > since &&
         one.process.blocked_until < since && parted_to_worker_[one.slot] < since &&
         parted_to_service_[one.slot] < since;
}

// A process that sends heartbeats gets its decision once the holder of its place has answered, or has had the time for
// it.
void Life::check_waiting() {
  for (const auto& [id, peer] : state_->peers) {
    if (!peer.asking || peer.asking->put_off || !peer.asking->challenged) continue;
    const auto* one = find_life(peer.asking->request.life);
    const bool is_current = one != nullptr && one->wire == id;  // it may have connected again
    if (!is_current || !is_well(*one, circumstances_.limits.heartbeat_limit / 2)) continue;
    const auto challenged = *peer.asking->challenged - service_ahead_;
    const auto since =
        std::max({challenged, jumped_, service_.blocked_until, service_started_, one->process.blocked_until,
                  parted_to_worker_[one->slot], parted_to_service_[one->slot]});
    if (timeline_.now() - since > circumstances_.limits.heartbeat_limit * 2 + seconds(5))
      violate(fmt::format("'{}' waits for a decision for too long", peer.asking->request.node_id));
  }
}

void Life::check_replaced(const std::string& life) {
  const auto* one = find_life(life);
  if (one == nullptr || !one->process.alive || one->hung || !one->wire) return;
  const auto* wire = find_wire(*one->wire);
  if (wire == nullptr || !wire->at_service || wire->service != incarnation_) return;
  const auto silent = timeline_.now() - one->delivered;
  if (silent >= circumstances_.limits.heartbeat_limit) return;
  violate(fmt::format("the worker with pid {} is replaced, but it is alive, and sent a message {} ms ago",
                      one->process.pid, std::chrono::duration_cast<milliseconds>(silent).count()));
}

// As the members were before this step.
void Life::check_outputs(const std::vector<ServiceOutput>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto* send = std::get_if<Send>(&outputs[i]);
    if (send == nullptr) continue;
    if (const auto* lost = std::get_if<Lost>(&send->message)) check_lost(*lost);
    const auto* wire = find_wire(send->connection);
    if (const auto* ended = std::get_if<Ended>(&send->message); ended != nullptr && wire != nullptr)
      check_ended(*ended, wire->worker);
    if (!std::holds_alternative<Refused>(send->message)) continue;
    const auto closes = [&](const ServiceOutput& output) {
      const auto* close = std::get_if<Close>(&output);
      return close != nullptr && close->connection == send->connection;
    };
    if (std::none_of(outputs.begin() + static_cast<std::ptrdiff_t>(i), outputs.end(), closes))
      violate(fmt::format("the connection {} of a refused process stays open", send->connection));
  }
}

// A loss that is certain has a cause.
void Life::check_lost(const Lost& lost) {
  if (!lost.certain) return;
  for (const auto& place : places_) {
    if (place.node_id != lost.node_id || !place.connected || place.generation != lost.generation) continue;
    const auto* one = find_life(place.life);
    if (one == nullptr || one->gave_up == lost.generation || !is_well(*one, circumstances_.limits.heartbeat_limit))
      continue;
    violate(fmt::format("the worker with pid {} is reported lost from generation {}, but it computes in it",
                        one->process.pid, lost.generation));
  }
}

// Only a worker that hangs is ended because of that, and it ends then.
void Life::check_ended(const Ended& ended, int index) {
  auto& one = worker(index);
  if (ended.ok || !ended.reason.starts_with("this worker hangs")) return;
  const bool advances = timeline_.now() - one.advanced < circumstances_.limits.hang;
  if (advances && is_well(one, circumstances_.limits.hang) && one.doing == Doing::computing)
    violate(fmt::format("worker {} is ended as hanging, but it does not hang", index));
  if (!one.hung || !one.wire || !ended.hangs) return;
  const auto arrives = std::max({timeline_.now(), find_wire(*one.wire)->to_worker, parted_to_worker_[one.slot]});
  timeline_.at(arrives + seconds(6), [this, index, wire = one.wire] {
    const auto& hanging = worker(index);
    const bool unreachable = hanging.process.blocked_until > timeline_.now() - seconds(6) ||
                             parted_to_worker_[hanging.slot] > timeline_.now() - seconds(6);
    if (hanging.process.alive && hanging.wire == wire && !unreachable)
      violate(fmt::format("worker {} hangs, was to end, and goes on", index));
  });
}

// The service had the report of another worker that its generation cannot go on, and a connection with this one.
void Life::check_late(int index) {
  const auto& one = worker(index);
  const auto reported = given_up_.find(one.key);
  if (reported == given_up_.end() || !one.wire || !service_.alive) return;
  const auto* wire = find_wire(*one.wire);
  if (!wire->at_service || !one.session.connected) return;
  const auto since =
      std::max({reported->second, wire->made, wire->to_worker, one.process.blocked_until, service_.blocked_until,
                service_started_, parted_to_service_[one.slot], parted_to_worker_[one.slot]});
  constexpr auto kMostToTell = seconds(10);
  if (timeline_.now() - since > kMostToTell) {
    violate(
        fmt::format("worker {} computes in a generation that another worker left, of which the service has the "
                    "report",
                    index));
  }
}

// A new generation has all its ranks at once.
void Life::check_generation(const std::vector<ServiceOutput>& outputs) {
  std::map<std::string, std::set<int>> ranks;
  std::map<std::string, int> sizes;
  for (const auto& output : outputs) {
    const auto* send = std::get_if<Send>(&output);
    const auto* assignment = send != nullptr ? std::get_if<RankAssignment>(&send->message) : nullptr;
    if (assignment == nullptr || assignment->store_key.empty() || formed_.contains(assignment->store_key)) continue;
    ranks[assignment->store_key].insert(assignment->rank);
    sizes[assignment->store_key] = assignment->size;
  }
  for (const auto& [key, each] : ranks) {
    const auto size = sizes[key];
    if (static_cast<int>(each.size()) != size) {
      violate(fmt::format("a generation of {} begins with {} ranks", size, each.size()));
    }
    formed_.insert(key);
  }
}

// Each rank of a generation belongs to one process; a generation has one store; ranks stay; generations count on.
void Life::check_assignment(const RankAssignment& assignment, int index) {
  const auto& session = worker(index).session;
  const auto generation = fmt::format("{} {}", state_->membership.job, assignment.generation);
  // A generation that workers have brought is not this service's to save first.
  const bool is_own = assignment.generation <= state_->membership.saved_generation;
  if (circumstances_.saves && is_own && assignment.generation > asked_to_save_)
    violate(fmt::format("a rank of generation {} is given before that is saved", assignment.generation));
  const auto expect = [&](std::map<std::string, std::string>& known, const std::string& key, const std::string& value,
                          const char* what) {
    const auto [found, is_new] = known.emplace(key, value);
    if (!is_new && found->second != value) violate(fmt::format("{} ({}: {} and {})", what, key, found->second, value));
  };
  if (!assignment.store_key.empty() && circumstances_.saves) {
    // With a disk that needs more than two seconds a generation begins unsaved. If the service dies then, and all who
    // know of that generation, another one has its number; not its key.
    const auto known = keys_.find(generation);
    if (known != keys_.end() && known->second != assignment.store_key &&
        !durable_.contains(fmt::format("{} {}", generation, known->second))) {
      keys_.erase(known);
      std::erase_if(holders_, [&](const auto& each) { return each.first.starts_with(generation + " "); });
    }
  }
  if (!assignment.store_key.empty()) expect(keys_, generation, assignment.store_key, "a generation was formed twice");
  expect(holders_, fmt::format("{} {}", generation, assignment.rank), session.facts.life,
         "two processes have one rank");
  expect(holders_, fmt::format("{} of {}", generation, session.facts.life), std::to_string(assignment.rank),
         "a process has two ranks");
  if (worker(index).stranger) {
    violate(fmt::format("worker {}, a stranger, has rank {}", index, assignment.rank));
  }
  if (!circumstances_.named) return;
  const auto [found, is_new] = ranks_.emplace(state_->membership.job + " " + session.facts.node_id, assignment.rank);
  if (!is_new && found->second != assignment.rank) {
    violate(fmt::format("the rank of '{}' was {} and is {}", session.facts.node_id, found->second, assignment.rank));
  }
}

}  // namespace lockstep::simulation
