// The process of the service: what its state machine sends, saves and closes is carried out here.
#include <fmt/format.h>

#include "simulation/world.h"

namespace lockstep::simulation {

using namespace membership;  // the outputs

namespace {

constexpr milliseconds kTick{100};
constexpr milliseconds kMostSaving{2000};

}  // namespace

void Life::start_service() {
  const auto& c = circumstances_;
  ++incarnation_;
  service_ = {next_pid_++, true, timeline_.now(), {}};
  JobOptions options{c.workers - c.servers, c.recovery, c.launcher, c.limits, c.secret ? "open sesame" : ""};
  if (c.launcher) options.workers = c.workers;
  const auto saved = c.saves ? saved_ : std::nullopt;
  state_ = begin_service(options, saved, timeline_.now(), [this] { return names_.token(); });
  service_started_ = timeline_.now();
  places_.clear();
  for (const auto& member : state_->membership.members)
    places_.push_back({member.node_id, member.life, member.generation, false});
  note(fmt::format("the service starts, {}", saved ? "with its saved state" : "with nothing"));
  timeline_.after(kTick, [this, incarnation = incarnation_] { tick_service(incarnation); });
}

void Life::kill_service(const char* why) {
  if (!service_.alive) return;
  note(fmt::format("the service is {}", why));
  service_.alive = false;
  service_.held.clear();
  state_.reset();
  const int incarnation = incarnation_;
  ++incarnation_;  // nothing that is on its way arrives
  for (auto& [id, wire] : wires_) {
    if (wire.service == incarnation) close_at_service(id, "", false);
  }
}

void Life::tick_service(int incarnation) {
  if (incarnation != incarnation_ || !service_.alive) return;
  // A timer that is due while the process is stopped fires once, afterwards.
  if (service_.held.empty() && service_.blocked_until <= timeline_.now()) {
    give_service(Tick{});
  } else if (service_.blocked_until > timeline_.now()) {
    return timeline_.at(service_.blocked_until + milliseconds(1), [this, incarnation] { tick_service(incarnation); });
  }
  timeline_.after(kTick, [this, incarnation] { tick_service(incarnation); });
}

void Life::give_service(const ServiceInput& input) {
  if (!state_) return;
  auto outputs = step(*state_, input, timeline_.now(), [this] { return names_.token(); });
  if (std::holds_alternative<Tick>(input)) check_waiting();
  check_generation(outputs);
  check_outputs(outputs);
  check_places();
  carry_out(std::move(outputs), 0);
}

// Members keep their places in the list; a place may get another process. One that reconnects keeps its generation.
void Life::check_places() {
  const auto& members = state_->membership.members;
  places_.resize(members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto& member = members[i];
    const auto& before = places_[i];
    // One that never had a rank has to make way for the holder of a rank that was not saved.
    const bool makes_way = before.generation == 0 && member.generation > 0;
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

// A process gets its decision once the holder of its place has answered, or has had the time for it.
void Life::check_waiting() {
  for (const auto& [id, peer] : state_->peers) {
    if (!peer.asking || peer.asking->put_off || !peer.asking->challenged) continue;
    const auto since = std::max({*peer.asking->challenged, service_.blocked_until, service_started_});
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

// A Save that comes first blocks the process, at most for two seconds.
void Life::carry_out(std::vector<ServiceOutput> outputs, std::size_t from) {
  for (std::size_t i = from; i < outputs.size() && service_.alive; ++i) {
    if (const auto* wanted = std::get_if<Save>(&outputs[i])) {
      const auto takes = std::min(save(), kMostSaving);
      if (wanted->first && std::exchange(kill_at_save_, false))
        timeline_.after(disk_.time(milliseconds(0), milliseconds(5000)), [this] { strike_service(); });
      if (!wanted->first || takes <= milliseconds(0)) continue;
      block(service_, takes);
      service_.held.push_front([this, rest = std::move(outputs), next = i + 1] { carry_out(rest, next); });
      return;
    }
    std::visit(
        [this](const auto& each) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(each)>, Save>) carry_out(each);
        },
        outputs[i]);
  }
}

milliseconds Life::save() {
  if (!circumstances_.saves) return milliseconds(0);
  const bool slow = disk_slow_until_ > timeline_.now();
  const auto takes = slow ? disk_.time(milliseconds(500), milliseconds(10000)) : circumstances_.disk;
  const auto generation =
      fmt::format("{} {} {}", state_->membership.job, state_->membership.generation, state_->membership.store_key);
  timeline_.after(
      takes, [this, generation, number = ++saves_, text = print_state(state_->membership), incarnation = incarnation_] {
        // What a killed process had not written is lost. An older text never replaces a newer one.
        if (incarnation != incarnation_ || !service_.alive || number < saved_number_) return;
        saved_number_ = number;
        saved_ = text;
        durable_.insert(generation);
      });
  return takes;
}

void Life::carry_out(const Send& send) {
  auto* wire = find_wire(send.connection);
  if (wire == nullptr) return;
  if (const auto* assignment = std::get_if<RankAssignment>(&send.message)) check_assignment(*assignment, wire->worker);
  to_worker(*wire, send.message);
}

void Life::carry_out(const Close& close) {
  auto* wire = find_wire(close.connection);
  if (wire == nullptr || !wire->at_service) return;
  // Its coroutine notices it in a moment.
  timeline_.after(milliseconds(0), [this, close, incarnation = incarnation_] {
    if (incarnation != incarnation_) return;
    deliver(service_, [this, close] { close_at_service(close.connection, close.reason, !close.reason.empty()); });
  });
}

void Life::carry_out(const LogLine& line) { note("service: " + line.text); }
void Life::carry_out(const Refusal& refusal) {
  note(fmt::format("service: refused {}: {}", refusal.who, refusal.reason));
}

// The launcher of a process without which the job continues ends it, after a time to report its stack.
void Life::carry_out(const ProcessLost& lost) {
  if (!circumstances_.launcher) return;
  note(fmt::format("service: rank {} (pid {}) is lost", lost.rank, lost.pid));
  lost_.insert(lost.pid);
  timeline_.after(seconds(5), [this, pid = lost.pid] {
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      const auto& process = workers_[i]->process;
      if (process.alive && process.pid == pid && lost_.contains(pid)) {
        end_worker(static_cast<int>(i), -9, "killed by its launcher, as it was lost");
      }
    }
  });
}

void Life::carry_out(const ProcessBack& back) {
  note(fmt::format("service: rank {} (pid {}) is back", back.rank, back.pid));
  lost_.erase(back.pid);
}

void Life::carry_out(const JobEnded& job) {
  for (const auto& [id, peer] : state_->peers) {
    if (!peer.closing) violate(fmt::format("the job ends, and connection {} stays open", id));
  }
  if (!job.ending.ok && circumstances_.completes && outcome_.end == "completed")
    violate("all workers have finished, and the job ends badly: " + job.ending.reason);
  note(fmt::format("service: the job has ended {}: {}", job.ending.ok ? "well" : "badly", job.ending.reason));
  if (circumstances_.launcher) {
    state_ = begin_service(state_->options, std::nullopt, timeline_.now(), [this] { return names_.token(); });
    places_.clear();
    if (!job.ending.ok) return;
    ++completed_;
    for (int slot = 0; slot < circumstances_.workers; ++slot) end_late(slot);
    return;
  }
  service_reported_ = true;
  end_job(job.ending.ok ? "completed" : job.ending.reason);
  timeline_.after(seconds(2), [this, incarnation = incarnation_] {
    if (incarnation == incarnation_) kill_service("at its end");
  });
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
