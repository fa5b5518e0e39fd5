// The service in a launcher: what its state machine sends, saves and closes is carried out here (node_server.cpp).
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "simulation/launchers/world.h"

namespace lockstep::simulation::launchers {

using namespace cluster::elastic;  // the outputs

namespace {

constexpr milliseconds kTick{100};

}  // namespace

void Life::begin_service(int index, std::int64_t created) {
  auto& one = launcher(index);
  const int incarnation = ++incarnations_;
  auto& service = services_[incarnation];
  service.launcher = index;
  service.created = created;
  const auto now = clock_of(one);
  service.kept = now;
  service.state.secret = circumstances_.secret ? "open sesame" : "";
  service.state.stepped = now;
  if (circumstances_.etcd && saved_) {
    const auto& job = service.state.jobs["job"] = read_job(*saved_, now);
    service.why = job.state.why;
  }
  one.service_here = incarnation;
  service_troubled_ = std::max(service_troubled_, timeline_.now());
  note(fmt::format("launcher {} runs the service {}{}", index, incarnation, saved_ ? " with the saved state" : ""));
  tick(incarnation);
  if (circumstances_.etcd) keep_lease(incarnation);
}

void Life::end_service(int incarnation, const char* why) {
  auto& service = services_.at(incarnation);
  if (!service.serves) return;
  note(fmt::format("service {} ends: {}", incarnation, why));
  service.serves = false;
  launcher(service.launcher).service_here = 0;
  for (auto& [id, wire] : wires_) {
    if (wire.service == incarnation && wire.at_service) close_at_service(id);
  }
}

void Life::tick(int incarnation) {
  timeline_.after(kTick, [this, incarnation] {
    if (!services_.at(incarnation).serves) return;
    const auto& process = host_of(incarnation);
    if (process.held.empty() && process.blocked_until <= timeline_.now()) {
      give_service(incarnation, membership::Tick{});
    } else if (process.blocked_until > timeline_.now() && network_.happens(500)) {
      // A timer that is due meanwhile fires before what has arrived is read.
      return timeline_.at(process.blocked_until - std::chrono::nanoseconds(1), [this, incarnation] {
        if (services_.at(incarnation).serves && host_of(incarnation).alive)
          give_service(incarnation, membership::Tick{});
        tick(incarnation);
      });
    }
    tick(incarnation);
  });
}

void Life::give_service(int incarnation, const NodeServiceInput& input) {
  auto& service = services_.at(incarnation);
  if (!service.serves) return;
  try {
    auto outputs = step(service.state, input, clock_of(owner_of(incarnation)), [this] { return names_.token(); });
    if (service.state.jobs.contains("job")) check_state(service.state.jobs.at("job"), service);
    if (circumstances_.etcd) outputs = service.held.take(std::move(outputs));
    for (const auto& output : outputs) carry_out(output);
    save_if_changed(incarnation);
  } catch (const Error&) {
    if (const auto* received = std::get_if<NodeReceived>(&input)) close_at_service(received->connection);
  }
}

void Life::carry_out(const NodeServiceOutput& output) {
  if (const auto* send = std::get_if<SendToNode>(&output)) to_launcher(send->connection, send->message);
  if (const auto* close = std::get_if<membership::Close>(&output)) {
    timeline_.after(milliseconds(0), [this, id = close->connection] { close_at_service(id); });
  }
  if (const auto* line = std::get_if<membership::LogLine>(&output)) note("service: " + line->text);
}

}  // namespace lockstep::simulation::launchers
