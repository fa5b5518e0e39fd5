// The simulated network of launchers: messages in the order of their sending, delays, cut hosts, connections that end.
#include <fmt/format.h>

#include <algorithm>

#include "simulation/launchers/world.h"

namespace lockstep::simulation::launchers {

using namespace cluster::elastic;  // the messages

void Life::connect(int index, int service) {
  auto& one = launcher(index);
  if (parted_until(services_.at(service).launcher, index) > timeline_.now()) return judge(index, false);
  const auto id = next_wire_++;
  wires_[id] = {id, index, service, true, true, {}, {}, timeline_.now()};
  one.wire = id;
  watch(id);
  timeline_.after(latency(), [this, id] {
    deliver(host_of(wires_.at(id).service), [this, id] {
      const int incarnation = wires_.at(id).service;
      if (!services_.at(incarnation).serves) return close_at_service(id);
      give_service(incarnation, membership::Opened{id, "10.0.0.1:1"});
    });
  });
}

Time Life::parted_until(int one, int other) { return one == other ? Time{} : std::max(parted_[one], parted_[other]); }

// TCP sends again what a cut host did not get.
void Life::to_service(ConnectionId id, const FromNode& message) {
  auto& wire = wires_.at(id);
  if (!wire.at_launcher) return;
  const auto away = parted_until(services_.at(wire.service).launcher, wire.launcher);
  wire.to_service = std::max({wire.to_service, timeline_.now() + latency(), away});
  timeline_.at(wire.to_service, [this, id, text = print(message)] {
    deliver(host_of(wires_.at(id).service), [this, id, text] {
      const auto& one = wires_.at(id);
      if (!one.at_service || !services_.at(one.service).serves) return;
      const auto& service = services_.at(one.service);
      const bool counts = !circumstances_.etcd || holds_key(service);
      if (counts && is_node(service.state, id)) launcher(one.launcher).delivered = timeline_.now();
      note(fmt::format("launcher {} -> service {}: {}", one.launcher, one.service, text));
      try {
        give_service(one.service, NodeReceived{id, parse_from_node(text)});
      } catch (const Error&) {
        close_at_service(id);
      }
    });
  });
}

void Life::to_launcher(ConnectionId id, const FromNodeService& message) {
  auto& wire = wires_.at(id);
  if (!wire.at_service) return;
  const auto away = parted_until(services_.at(wire.service).launcher, wire.launcher);
  wire.to_launcher = std::max({wire.to_launcher, timeline_.now() + latency(), away});
  timeline_.at(wire.to_launcher, [this, id, text = print(message)] {
    deliver(launcher(wires_.at(id).launcher).process, [this, id, text] {
      auto& one = wires_.at(id);
      if (!one.at_launcher) return;
      one.heard = timeline_.now();
      note(fmt::format("service {} -> launcher {}: {}", one.service, one.launcher, text));
      try {
        const auto received = parse_from_node_service(text);
        const bool welcomes = std::holds_alternative<NodeWelcome>(received);
        if (welcomes && launcher(one.launcher).odd) violate("a stranger is a node of the job");
        check_refusal(one.launcher, received);
        if (const auto* view = std::get_if<JobView>(&received)) check_view(one.launcher, *view);
        give_launcher(one.launcher, received);
        if (welcomes) {
          auto& welcomed = launcher(one.launcher);
          welcomed.troubled = std::max(welcomed.troubled, timeline_.now());
        }
        if (std::holds_alternative<ReplacementAnswer>(received)) take_answer(one.launcher);
      } catch (const Error&) {
        close_at_launcher(id);
      }
    });
  });
}

void Life::close_at_launcher(ConnectionId id) {
  auto& wire = wires_.at(id);
  if (!wire.at_launcher) return;
  wire.at_launcher = false;
  auto& one = launcher(wire.launcher);
  one.wire.reset();
  if (one.process.alive) {
    one.troubled = std::max(one.troubled, timeline_.now());
    if (one.session.connected) one.disconnected = std::max(wire.heard, timeline_.now() - idle()) + one.ahead;
    step(one.session, NodeDisconnected{});
    if (!one.session.over && !one.session.said_goodbye && !one.odd) find(wire.launcher);
    look(wire.launcher);
  }
  timeline_.at(std::max(wire.to_service, timeline_.now() + latency()),
               [this, id] { deliver(host_of(wires_.at(id).service), [this, id] { close_at_service(id); }); });
}

void Life::close_at_service(ConnectionId id) {
  auto& wire = wires_.at(id);
  if (!wire.at_service) return;
  wire.at_service = false;
  timeline_.at(std::max(wire.to_launcher, timeline_.now() + latency()), [this, id] {
    deliver(launcher(wires_.at(id).launcher).process, [this, id] { close_at_launcher(id); });
  });
  if (services_.at(wire.service).serves) give_service(wire.service, membership::Closed{id, "", false});
}

// The silence after which a launcher takes its connection for lost (node_link.cpp).
milliseconds Life::idle() const {
  return std::max((circumstances_.etcd ? circumstances_.policy.heartbeat_limit : circumstances_.limit) / 2,
                  milliseconds(1000));
}

// The keep-alive of a launcher's connection.
void Life::watch(ConnectionId id) {
  timeline_.after(idle() / 2, [this, id] {
    auto& wire = wires_.at(id);
    if (!wire.at_launcher) return;
    const auto now = timeline_.now();
    const auto& service = services_.at(wire.service);
    const auto& host = launcher(service.launcher);
    const bool together = parted_until(service.launcher, wire.launcher) <= now;
    if (host.process.alive && host.process.blocked_until <= now && service.serves && wire.at_service && together)
      wire.heard = now;
    if (now - wire.heard > idle()) {
      deliver(launcher(wire.launcher).process, [this, id] { close_at_launcher(id); });
    }
    watch(id);
  });
}

}  // namespace lockstep::simulation::launchers
