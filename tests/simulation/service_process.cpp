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
  state_ = begin_service(options, saved, service_now(), [this] { return names_.token(); });
  service_started_ = timeline_.now();
  asked_to_save_ = state_->membership.saved_generation;
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
  auto outputs = step(*state_, input, service_now(), [this] { return names_.token(); });
  if (std::holds_alternative<Tick>(input)) check_waiting();
  check_generation(outputs);
  check_outputs(outputs);
  check_places();
  carry_out(std::move(outputs), 0);
}

// A Save that comes first blocks the process, at most for two seconds.
void Life::carry_out(std::vector<ServiceOutput> outputs, std::size_t from) {
  for (std::size_t i = from; i < outputs.size() && service_.alive; ++i) {
    if (const auto* wanted = std::get_if<Save>(&outputs[i])) {
      const bool is_last = wanted->first && std::exchange(kill_at_save_, false);
      const auto takes = std::min(save(is_last), kMostSaving);
      // Half of them when the workers have their ranks, and the disk does not have them yet.
      const auto most = is_last && disk_.happens(500) ? kMostSaving : milliseconds(0);
      if (is_last)
        timeline_.after(most + disk_.time(milliseconds(1), milliseconds(2000)), [this] { strike_service(); });
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

milliseconds Life::save(bool is_last) {
  if (!circumstances_.saves) return milliseconds(0);
  asked_to_save_ = state_->membership.saved_generation;
  const bool slow = disk_slow_until_ > timeline_.now();
  const auto takes = is_last ? disk_.time(milliseconds(5000), milliseconds(10000))
                     : slow  ? disk_.time(milliseconds(500), milliseconds(10000))
                             : circumstances_.disk;
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
    state_ = begin_service(state_->options, std::nullopt, service_now(), [this] { return names_.token(); });
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

}  // namespace lockstep::simulation
