// The simulated network: messages in the order of their sending, delays, cut hosts, connections that end.
#include <fmt/format.h>

#include "simulation/world.h"

namespace lockstep::simulation {

using membership::Closed;
using membership::Disconnected;

Wire* Life::find_wire(ConnectionId id) {
  const auto found = wires_.find(id);
  return found == wires_.end() ? nullptr : &found->second;
}

// TCP sends again what a cut host did not get: it arrives after the cut, unless the connection has ended before.
void Life::to_service(Wire& wire, FromWorker message) {
  if (!wire.at_worker) return;
  auto& arrives = wire.to_service;
  arrives = std::max({arrives, timeline_.now() + latency(), parted_to_service_[worker(wire.worker).slot]});
  // Through its text, as over a real connection.
  timeline_.at(arrives, [this, id = wire.id, text = membership::print(message)] {
    auto* one = find_wire(id);
    if (one == nullptr || one->service != incarnation_) return;
    deliver(service_, [this, id, text] {
      const auto* now = find_wire(id);
      if (now == nullptr || !now->at_service) return;
      note(fmt::format("worker {} -> service: {}", now->worker, text));
      mix(text);
      auto& sender = worker(now->worker);
      sender.delivered = timeline_.now();
      try {
        const auto parsed = membership::parse_from_worker(text);
        if (const auto* again = std::get_if<membership::Again>(&parsed)) {
          const bool is_present = sender.place && sender.place->generation == again->generation && state_ &&
                                  membership::is_admitted(*state_, id);
          if (is_present) given_up_.emplace(sender.key, timeline_.now());
          sender.gave_up = std::max(sender.gave_up, again->generation);
        }
        const auto* heartbeat = std::get_if<membership::Heartbeat>(&parsed);
        if (heartbeat != nullptr && heartbeat->step &&
            std::exchange(sender.reported, *heartbeat->step) != *heartbeat->step)
          sender.advanced = timeline_.now();
        give_service(membership::Received{id, parsed});
      } catch (const Error& error) {
        close_at_service(id, error.message(), false);
      }
    });
  });
}

void Life::to_worker(Wire& wire, FromScheduler message) {
  if (!wire.at_service) return;
  auto& arrives = wire.to_worker;
  arrives = std::max({arrives, timeline_.now() + latency(), parted_to_worker_[worker(wire.worker).slot]});
  timeline_.at(arrives, [this, id = wire.id, text = membership::print(message)] {
    auto* one = find_wire(id);
    if (one == nullptr) return;
    deliver(worker(one->worker).process, [this, id, text] {
      auto* now = find_wire(id);
      if (now == nullptr || !now->at_worker) return;
      now->heard = timeline_.now();
      note(fmt::format("service -> worker {}: {}", now->worker, text));
      mix(text);
      const int index = now->worker;
      try {
        give_worker(index, membership::parse_from_scheduler(text));
      } catch (const Error& error) {
        note(fmt::format("worker {} closes its connection: {}", index, error.message()));
        close_at_worker(id);
      }
    });
  });
}

// This side of the worker is closed: by the process itself, or by the end of it.
void Life::close_at_worker(ConnectionId id) {
  auto* wire = find_wire(id);
  if (wire == nullptr || !wire->at_worker) return;
  wire->at_worker = false;
  auto& one = worker(wire->worker);
  if (one.wire == id) one.wire.reset();
  if (one.process.alive) {
    give_worker(wire->worker, Disconnected{"the connection has ended", false});
  }
  if (one.lost_host) return;  // no packet leaves it any more
  const auto arrives = std::max({wire->to_service, timeline_.now() + latency(), parted_to_service_[one.slot]});
  timeline_.at(arrives, [this, id, incarnation = wire->service] {
    if (incarnation != incarnation_) return;
    deliver(service_, [this, id] { close_at_service(id, "the connection has ended", false); });
  });
}

void Life::close_at_service(ConnectionId id, const std::string& reason, bool by_service) {
  auto* wire = find_wire(id);
  if (wire == nullptr || !wire->at_service) return;
  wire->at_service = false;
  const auto arrives =
      std::max({wire->to_worker, timeline_.now() + latency(), parted_to_worker_[worker(wire->worker).slot]});
  timeline_.at(arrives, [this, id] {
    const auto* one = find_wire(id);
    if (one == nullptr) return;
    deliver(worker(one->worker).process, [this, id] { close_at_worker(id); });
  });
  if (service_.alive && wire->service == incarnation_) give_service(Closed{id, reason, by_service});
}

// The keep-alive of a worker's connection, and the time in which a process must have registered.
void Life::watch_wire(ConnectionId id) {
  timeline_.after(circumstances_.limits.heartbeat_limit / 2, [this, id] {
    auto* wire = find_wire(id);
    if (wire == nullptr || (!wire->at_worker && !wire->at_service)) return;
    const auto now = timeline_.now();
    const int slot = worker(wire->worker).slot;
    const bool answers = service_.alive && wire->service == incarnation_ && wire->at_service &&
                         service_.blocked_until <= now && parted_to_service_[slot] <= now &&
                         parted_to_worker_[slot] <= now;
    if (answers) wire->heard = now;
    if (wire->at_worker && now - wire->heard > circumstances_.limits.heartbeat_limit) {
      deliver(worker(wire->worker).process, [this, id] { close_at_worker(id); });
    }
    constexpr auto kMostToRegister = seconds(30);
    if (now - wire->made > kMostToRegister && wire->at_service && wire->service == incarnation_) {
      deliver(service_, [this, id] {
        const bool late = state_ && !membership::has_registered(*state_, id);
        if (late) close_at_service(id, "it sent no request in time", true);
      });
    }
    watch_wire(id);
  });
}

}  // namespace lockstep::simulation
