// The process of a worker: its session is the real state machine; around it are the waits of worker_session.cpp, a
// model of training, and whoever starts another process after its end.
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
        if (begun && (saved_ || circumstances_.rates[static_cast<std::size_t>(Fault::kill_service)] == 0)) {
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

void Life::enter(int index) {
  auto& one = worker(index);
  one.place = one.session.assignment;
  one.doing = Doing::meeting;
  ++one.turn;
  one.key = one.place->store_key;
  note(fmt::format("worker {} has rank {} of generation {}", index, one.place->rank, one.place->generation));
  timeline_.after(circumstances_.start_limit, [this, index, turn = one.turn] {
    deliver(worker(index).process, [this, index, turn] {
      if (worker(index).turn == turn && worker(index).doing == Doing::meeting)
        go_on(index, "the others did not come in time");
    });
  });
  if (one.place->rank == 0) {
    const auto host = fmt::format("host{}-{}", index, one.place->generation);
    computations_[one.key].store_host = host;
    return give_worker(index, StoreOpened{{one.place->generation, host, 4000}});
  }
  look(index);
}

// The rendezvous of a generation's ranks at its store. Then they agree on the newest state that one of them has.
void Life::meet(int index) {
  auto& one = worker(index);
  const auto& place = *one.place;
  const auto& session = one.session;
  if (place.rank != 0 && !session.store) return;
  auto& computation = computations_[one.key];
  if (place.rank != 0) {
    if (session.store->generation > place.generation) return go_on(index, "a later generation has begun");
    const bool same = session.store->generation == place.generation && session.store->host == computation.store_host;
    if (!same) return violate(fmt::format("worker {} gets the store of another generation", index));
  }
  computation.generation = place.generation;
  computation.size = place.size;
  const auto [found, is_new] = computation.members.emplace(place.rank, index);
  if (!is_new) {
    if (found->second != index)
      violate(fmt::format("workers {} and {} compute as rank {}", found->second, index, place.rank));
    return;
  }
  if (static_cast<int>(computation.members.size()) < computation.size || computation.started || computation.abandoned)
    return;
  computation.started = true;
  std::int64_t most = 0;
  for (const auto& [rank, member] : computation.members) most = std::max(most, worker(member).steps);
  const auto has_newer = [&](const auto& each) { return each->process.alive && each->steps > most; };
  if (std::any_of(workers_.begin(), workers_.end(), has_newer)) {
    violate(fmt::format("generation {} begins at step {}, and a living worker has a newer state",
                        computation.generation, most));
  }
  computation.step = most;
  note(fmt::format("generation {} computes from step {}", computation.generation, most));
  for (const auto& [rank, member] : std::map(computation.members)) {
    timeline_.after(latency(), [this, member, turn = worker(member).turn, most] {
      deliver(worker(member).process, [this, member, turn, most] {
        auto& each = worker(member);
        if (each.turn != turn || each.doing != Doing::meeting) return;
        each.steps = most;
        each.hash = hash_after(most);
        each.doing = Doing::computing;
        contribute(member);
      });
    });
  }
}

void Life::contribute(int index) {
  auto& one = worker(index);
  if (one.hung || one.doing != Doing::computing) return;
  if (one.steps >= circumstances_.steps) return finish(index);
  const auto time = pace_.time(circumstances_.step / 2, circumstances_.step);
  timeline_.after(time, [this, index, turn = one.turn, step = one.steps] {
    deliver(worker(index).process, [this, index, turn, step] {
      auto& each = worker(index);
      if (each.turn != turn || each.doing != Doing::computing || each.hung || each.steps != step) return;
      auto& computation = computations_[each.key];
      if (computation.step != step)
        return violate(fmt::format("worker {} computes step {} of generation {}, which is at {}", index, step,
                                   computation.generation, computation.step));
      computation.contributed[each.place->rank] = index;
      timeline_.after(circumstances_.collective_limit, [this, index, turn, step] {
        deliver(worker(index).process, [this, index, turn, step] {
          const auto& late = worker(index);
          if (late.turn != turn || late.doing != Doing::computing || late.steps != step || late.hung) return;
          check_late(index);
          go_on(index, "a collective took too long");
        });
      });
      if (static_cast<int>(computation.contributed.size()) < computation.size) return;
      auto& newest = newest_[each.session.job];
      if (computation.generation < newest)
        violate(fmt::format("generation {} completes step {} after generation {} did", computation.generation, step,
                            newest));
      newest = std::max(newest, computation.generation);
      const auto members = std::exchange(computation.contributed, {});
      ++computation.step;
      // The last operation is the one in which a loss makes some workers finish, and others not.
      if (computation.step == circumstances_.steps && circumstances_.rates[0] > 0 && trouble_.happens(300)) {
        const auto last = members.rbegin()->second;
        ++outcome_.faults[0];
        note(fmt::format("FAULT: worker {} is killed in the last step", last));
        timeline_.after(milliseconds(1), [this, last] { end_worker(last, -9, "killed"); });
      }
      for (const auto& [rank, member] : members) {
        timeline_.after(latency(), [this, member, generation = computation.generation, step] {
          deliver(worker(member).process, [this, member, generation, step] { complete(member, generation, step); });
        });
      }
    });
  });
}

void Life::complete(int index, std::int64_t generation, std::int64_t step) {
  auto& one = worker(index);
  if (one.doing != Doing::computing || one.hung || one.place->generation != generation || one.steps != step) return;
  one.hash = next_hash(one.hash, step);
  one.steps = step + 1;
  contribute(index);
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

// As the recovery of a run: the state stays, and the next generation is awaited.
void Life::go_on(int index, const std::string& why) {
  auto& one = worker(index);
  leave_computation(index);
  if (!circumstances_.recovery) {
    one.doing = Doing::gone;
    give_worker(index, Leave{false, why});
    return end_worker(index, 1, why);
  }
  ++one.turn;
  one.doing = Doing::waiting;
  note(fmt::format("worker {} cannot continue in generation {}: {}", index, one.place->generation, why));
  const auto longest = circumstances_.launcher ? circumstances_.limits.heartbeat_limit : circumstances_.start_limit;
  const auto check = std::make_shared<std::function<void(Time)>>();
  *check = [this, index, turn = one.turn, longest, check](Time heard) {
    auto& each = worker(index);
    if (each.turn != turn || each.doing != Doing::waiting) return;
    if (each.session.connected) heard = timeline_.now();
    if (timeline_.now() - heard >= longest) return end_worker(index, 1, "a rank is lost, and there is no service");
    timeline_.after(longest / 4 + milliseconds(1), [this, index, heard, check] {
      deliver(worker(index).process, [heard, check] { (*check)(heard); });
    });
  };
  (*check)(timeline_.now());
  give_worker(index, Again{one.place->generation, why});
}

// Other members of the computation may notice that this one has left it, or not.
void Life::leave_computation(int index) {
  auto& one = worker(index);
  const auto found = computations_.find(one.key);
  if (found == computations_.end() || !one.place) return;
  if (one.doing != Doing::computing && one.doing != Doing::meeting) return;
  if (!found->second.started) found->second.abandoned = true;
  for (const auto& [rank, member] : found->second.members) {
    if (member == index || !trouble_.happens(circumstances_.notice)) continue;
    timeline_.after(pace_.time(milliseconds(1), milliseconds(3000)),
                    [this, member, key = one.key, rank = one.place->rank] {
                      deliver(worker(member).process, [this, member, key, rank] {
                        const auto& each = worker(member);
                        const bool affected = each.key == key && each.doing == Doing::computing && !each.hung;
                        if (affected) go_on(member, fmt::format("the connection to rank {} broke", rank));
                      });
                    });
  }
}

void Life::finish(int index) {
  auto& one = worker(index);
  if (one.hash != hash_after(circumstances_.steps)) violate(fmt::format("worker {} ends with another result", index));
  // It reports that to no service that starts after its own end.
  if (!service_.alive) circumstances_.completes = false;
  one.doing = Doing::writing;
  ++one.turn;
  // It may write its results before its report, or after it.
  const auto before =
      circumstances_.slow_end ? pace_.time(milliseconds(100), circumstances_.limits.hang / 2) : milliseconds(0);
  timeline_.after(before, [this, index, turn = one.turn] {
    deliver(worker(index).process, [this, index, turn] {
      if (worker(index).turn == turn) report_finish(index);
    });
  });
}

void Life::report_finish(int index) {
  auto& one = worker(index);
  auto writes = pace_.happens(300) ? pace_.time(milliseconds(100), milliseconds(8000)) : milliseconds(0);
  const bool cut = circumstances_.rates[static_cast<std::size_t>(Fault::cut)] > 0 && trouble_.happens(200);
  if (cut && one.wire) {
    reset_wire(index);
    writes = milliseconds(8000);
  }
  give_worker(index, Leave{true, ""});
  timeline_.after(writes, [this, index, turn = one.turn] {
    deliver(worker(index).process, [this, index, turn] {
      if (worker(index).turn == turn) await_end(index);
    });
  });
}

// It waits for the service to confirm its report.
void Life::await_end(int index) {
  auto& one = worker(index);
  one.doing = Doing::leaving;
  timeline_.after(one.session.connected ? seconds(5) : seconds(2), [this, index, turn = one.turn] {
    deliver(worker(index).process, [this, index, turn] {
      if (worker(index).turn == turn) end_worker(index, 0, "it has finished");
    });
  });
  look(index);
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
