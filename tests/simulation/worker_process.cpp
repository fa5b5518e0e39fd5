// The process of a worker: its session is the real state machine; around it are the waits of worker_session.cpp, and
// whoever starts another process after its end.
#include <fmt/format.h>

#include "simulation/world.h"

namespace lockstep::simulation {

using namespace membership;  // the messages

int Life::start_worker(int slot) {
  const auto& c = circumstances_;
  const int index = static_cast<int>(workers_.size());
  auto& one = *workers_.emplace_back(std::make_unique<Worker>());
  one.process = {next_pid_++, true, timeline_.now(), {}};
  one.slot = slot;
  auto& facts = one.session.facts;
  facts.where = "service:1";
  facts.named = c.named;
  facts.node_id = c.launcher ? std::to_string(slot) : c.named ? fmt::format("w{}", slot) : names_.token();
  facts.life = names_.token();
  facts.host = facts.machine = fmt::format("host{}", slot / 2);
  facts.pid = one.process.pid;
  facts.server = slot >= c.workers - c.servers && !c.launcher;
  facts.servers = c.launcher ? 0 : c.servers;
  facts.secret = c.secret ? "open sesame" : "";
  facts.nonce = names_.token();
  facts.of_launcher = c.launcher;
  facts.recovers = c.recovery;
  slots_[static_cast<std::size_t>(slot)].worker = index;
  note(fmt::format("worker {} (pid {}) starts in place {}", index, one.process.pid, slot));
  timeline_.after(pace_.time(milliseconds(1), c.start), [this, index] {
    deliver(worker(index).process, [this, index] {
      worker(index).doing = Doing::registering;
      connect(index);
    });
  });
  timeline_.after(c.start_limit + c.start, [this, index] {
    deliver(worker(index).process, [this, index] {
      if (worker(index).doing == Doing::registering) end_worker(index, 1, "waited too long for the start");
    });
  });
  return index;
}

// A process that does not belong to the job: it has the id of a living one, or another secret, job, or version.
void Life::start_odd(int slot, bool twin) {
  const int before = slots_[static_cast<std::size_t>(slot)].worker;
  const int index = start_worker(slot);
  slots_[static_cast<std::size_t>(slot)].worker = before;
  auto& one = worker(index);
  one.odd = true;
  const bool begun = state_ && !state_->membership.members.empty();
  if (!twin) {
    one.stranger = true;
    switch (trouble_.below(4)) {
      case 0:
        one.session.facts.secret = "close sesame";
        one.stranger = circumstances_.secret;
        break;
      case 1: one.session.facts.node_id.clear(); break;
      case 2: one.session.job = "another job", one.session.assignment = RankAssignment{}; break;
      default:
        // The first process of a job decides on their number, so this is one only where the job has begun, for good.
        if (begun && (saved_ || !circumstances_.has(Fault::kill_service))) {
          one.session.facts.servers += 1;
        } else {
          one.session.facts.node_id.clear();
        }
        break;
    }
  }
}

void Life::connect(int index) {
  auto& one = worker(index);
  if (!one.process.alive || one.wire || one.session.over) return;
  const auto again = [&] {
    one.back_off = std::min(one.back_off * 3 / 2, milliseconds(3000));
    timeline_.after(one.back_off, [this, index] { deliver(worker(index).process, [this, index] { connect(index); }); });
  };
  const auto now = timeline_.now();
  const bool reachable = parted_to_service_[one.slot] <= now && parted_to_worker_[one.slot] <= now;
  if (!service_.alive || !reachable) return again();
  const ConnectionId id = next_wire_++;
  wires_[id] = Wire{id, index, incarnation_, true, true, now, now, now, now};
  one.wire = id;
  watch_wire(id);
  timeline_.after(latency() * 2, [this, id, incarnation = incarnation_] {
    if (incarnation != incarnation_) return;
    deliver(service_, [this, id] {
      const auto* wire = find_wire(id);
      if (wire != nullptr && wire->at_service) give_service(Opened{id, fmt::format("10.0.0.{}:{}", wire->worker, id)});
    });
  });
}

void Life::give_worker(int index, const SessionInput& input) {
  auto& one = worker(index);
  if (!one.process.alive) return;
  const bool was_connected = one.session.connected;
  for (const auto& output : step(one.session, input)) {
    if (const auto* message = std::get_if<FromWorker>(&output)) {
      if (one.wire) to_service(*find_wire(*one.wire), *message);
    } else if (const auto* broken = std::get_if<GenerationBroken>(&output)) {
      if (one.doing == Doing::computing && !one.hung) go_on(index, broken->why);
    } else if (const auto* end = std::get_if<MustEnd>(&output)) {
      // Its thread hangs: it reports its stack, and ends itself.
      give_worker(index, Leave{false, "it hangs: " + end->reason});
      timeline_.after(milliseconds(500),
                      [this, index] { end_worker(index, circumstances_.launcher ? -9 : 1, "it hung"); });
    } else if (const auto* line = std::get_if<SessionLine>(&output)) {
      note(fmt::format("worker {}: {}", index, line->text));
    }
  }
  if (!one.process.alive) return;
  if (one.session.connected && !was_connected) {
    one.back_off = milliseconds(100);
    beat(index);
  }
  if (!one.wire && !one.session.over && one.doing != Doing::starting) {
    timeline_.after(one.back_off, [this, index] { deliver(worker(index).process, [this, index] { connect(index); }); });
  }
  look(index);
}

void Life::beat(int index) {
  timeline_.after(circumstances_.heartbeat, [this, index] {
    deliver(worker(index).process, [this, index] {
      auto& one = worker(index);
      if (!one.wire || !one.session.connected) return;
      to_service(*find_wire(*one.wire), Heartbeat{one.steps, std::nullopt, std::nullopt});
      beat(index);
    });
  });
}

/// What the waits of the process find in the state of its session.
void Life::look(int index) {
  auto& one = worker(index);
  const auto& session = one.session;
  if (one.hung) return;
  switch (one.doing) {
    case Doing::registering:
      if (session.assignment && !one.odd) return enter(index);
      if (one.odd && session.assignment && !session.job.empty() && session.connected) return;
      if (session.over) return end_worker(index, session.complete ? 0 : 1, session.over->second);
      return;
    case Doing::waiting:
      if (session.assignment->generation > one.place->generation) return enter(index);
      if (session.complete && session.over) return end_worker(index, 0, "the job was completed meanwhile");
      if (session.over) return end_worker(index, 1, session.over->second);
      return;
    case Doing::meeting:
      if (const auto lost = loss_in(session, one.place->generation)) return go_on(index, *lost);
      if (session.over && !session.store) return end_worker(index, 1, session.over->second);
      return meet(index);
    case Doing::leaving:
      if (session.over) return end_worker(index, 0, "it has finished");
      return;
    default: return;
  }
}

void Life::end_worker(int index, int code, const std::string& why) {
  auto& one = worker(index);
  if (!one.process.alive) return;
  note(fmt::format("worker {} ends with {}: {}", index, code, why));
  leave_computation(index);
  one.process.alive = false;
  one.process.held.clear();
  one.doing = Doing::gone;
  ++one.turn;
  if (one.wire) close_at_worker(*one.wire);
  if (!one.odd) slot_ended(one.slot, index, code);
}

// A replacement that starts, or waits, for a job which was completed without it is not needed: its launcher ends it.
void Life::end_late(int slot) {
  const auto& place = slots_[static_cast<std::size_t>(slot)];
  if (place.programs >= completed_ || place.given_up) return;
  const auto& one = worker(place.worker);
  const bool waits = one.doing == Doing::starting || one.doing == Doing::registering;
  if (one.process.alive && waits && !one.odd) end_worker(place.worker, 0, "the job was completed without it");
}

void Life::slot_ended(int slot, int index, int code) {
  auto& place = slots_[static_cast<std::size_t>(slot)];
  if (place.worker != index && place.worker >= 0 && !worker(place.worker).odd) return;
  const auto start = [&] {
    timeline_.after(pace_.time(milliseconds(10), milliseconds(5000)), [this, slot] {
      if (job_over_) return;
      start_worker(slot);
      if (circumstances_.launcher) end_late(slot);
    });
  };
  if (code == 0) {
    if (++place.programs < circumstances_.programs) return start();
    place.given_up = true;
    if (std::ranges::all_of(slots_, [](const Slot& each) { return each.given_up; })) end_job("completed");
    return;
  }
  // A launcher takes an exit code for the program's decision, and ends the job.
  const bool decision = circumstances_.launcher && code > 0;
  if (!decision && circumstances_.recovery && place.restarts < circumstances_.restarts && !job_over_) {
    ++place.restarts;
    return start();
  }
  place.given_up = true;
  if (!circumstances_.launcher) return;
  end_job(fmt::format("a rank ended with {}", code));
  for (std::size_t i = 0; i < workers_.size(); ++i) end_worker(static_cast<int>(i), -15, "ended by its launcher");
}

}  // namespace lockstep::simulation
