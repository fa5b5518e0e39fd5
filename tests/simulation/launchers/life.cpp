// A simulated life of a job of launchers: what is drawn for it, and its end.
#include <fmt/format.h>

#include <algorithm>

#include "simulation/launchers.h"
#include "simulation/launchers/world.h"

namespace lockstep::simulation::launchers {
namespace {

// A life in which launchers are killed, others start in their places, and the job has to be completed.
void let_survive(Circumstances& c) {
  for (const auto fault : {Fault::pause, Fault::part, Fault::fail, Fault::lose, Fault::leave, Fault::etcd_away})
    c.rates[static_cast<std::size_t>(fault)] = 0;
  auto& kills = c.rates[static_cast<std::size_t>(Fault::kill)];
  kills = std::max(kills, 1);
  c.policy.join_timeout = std::max(c.policy.join_timeout, milliseconds(180000));
  c.limit = std::max(c.limit, c.lease * 3 + seconds(30));
  c.survives = true;
  c.completes = true;
}

// A life in which clocks jump while launchers meet, and nothing else happens that would be a reason to give up.
void let_clocks_jump(Circumstances& c) {
  for (const auto fault :
       {Fault::kill, Fault::pause, Fault::part, Fault::fail, Fault::lose, Fault::leave, Fault::etcd_away})
    c.rates[static_cast<std::size_t>(fault)] = 0;
  c.rates[static_cast<std::size_t>(Fault::clock_jump)] = 3;
  c.faults_for = seconds(5);
  c.completes = true;
}

Circumstances drawn(std::uint64_t seed) {
  Chance chance(seed, 10);
  Circumstances c;
  c.etcd = chance.happens(600);
  c.secret = chance.happens(300);
  c.launchers = chance.happens(100) ? chance.from_to(6, 16) : chance.from_to(1, 5);
  c.policy.max_nodes = chance.happens(700) ? c.launchers : chance.from_to(1, c.launchers);
  c.policy.min_nodes = chance.from_to(1, c.policy.max_nodes);
  c.policy.max_restarts = chance.happens(500) ? 0 : chance.from_to(1, 20);
  c.policy.max_replacements = chance.happens(500) ? c.policy.max_restarts : 0;
  c.policy.join_timeout = chance.time(milliseconds(20000), milliseconds(300000));
  c.policy.last_call = chance.time(milliseconds(100), milliseconds(10000));
  c.policy.replace_timeout = chance.time(milliseconds(1000), milliseconds(30000));
  c.policy.heartbeat_limit = chance.time(milliseconds(2000), milliseconds(20000));
  c.heartbeat = std::min(milliseconds(1000), c.policy.heartbeat_limit / 4);
  c.limit = chance.time(milliseconds(5000), milliseconds(60000));
  c.lease = std::max(milliseconds(2000), c.policy.heartbeat_limit);
  c.latency = chance.time(milliseconds(0), milliseconds(50));
  c.write = chance.time(milliseconds(0), milliseconds(100));
  c.steps = chance.from_to(3, 60);
  c.step = chance.time(milliseconds(20), milliseconds(1000));
  c.faults_for = chance.time(milliseconds(3000), milliseconds(60000));
  if (chance.happens(100)) return c;  // a life without faults
  constexpr std::array kHarmless{Fault::cut, Fault::join, Fault::stranger, Fault::lost_answer};
  const bool only_one = chance.happens(100);
  // clock_jump has random numbers of its own: a life that a test names stays the same.
  constexpr int kDrawnTogether = static_cast<int>(Fault::clock_jump);
  const int one = chance.below(kDrawnTogether);
  for (int kind = 0; kind < kDrawnTogether; ++kind) {
    const bool on = only_one ? kind == one : chance.happens(450);
    c.rates[static_cast<std::size_t>(kind)] = on ? (chance.happens(500) ? 1 : chance.from_to(2, 5)) : 0;
    if (on && std::ranges::find(kHarmless, static_cast<Fault>(kind)) == kHarmless.end()) c.completes = false;
  }
  Chance more(seed, 14);
  if (more.happens(250)) c.rates[static_cast<std::size_t>(Fault::clock_jump)] = more.from_to(1, 4);
  if (c.etcd && more.happens(200)) {
    let_survive(c);
  } else if (more.happens(50)) {
    let_clocks_jump(c);
  }
  return c;
}

}  // namespace

const char* name(Fault fault) {
  constexpr std::array<const char*, kFaults> kNames{
      "killed launcher",        "stopped launcher", "reset connection of a launcher",
      "cut host of a launcher", "failed rank",      "lost rank",
      "launcher that leaves",   "late launcher",    "etcd away",
      "lost answer of etcd",    "strange launcher", "clock of a launcher's host that jumps"};
  return kNames.at(static_cast<std::size_t>(fault));
}

Life::Life(std::uint64_t seed, std::ostream* trace)
    : Frame(trace),
      circumstances_(drawn(seed)),
      network_(seed, 11),
      trouble_(seed, 12),
      names_(seed, 13),
      clocks_(seed, 15) {}

void Life::note(const std::string& text) {
  mix(text);
  Frame::note(text);
}

bool Life::all_gone() const {
  const auto is_there = [](const auto& each) { return each->process.alive && !each->odd; };
  return coming_ == 0 && std::ranges::none_of(launchers_, is_there);
}

// After the last fault, whatever waits for a time limit may wait for several, one after another.
void Life::run_events() {
  const auto& c = circumstances_;
  const auto& policy = c.policy;
  const auto calm = policy.join_timeout * 3 + policy.last_call * 4 + policy.replace_timeout * 3 +
                    policy.heartbeat_limit * 12 + c.limit * 4 + c.step * c.steps * (policy.max_restarts + 4) +
                    seconds(300);
  const Time end = timeline_.now() + c.faults_for + calm;
  constexpr std::uint64_t kMostEvents = 2'000'000;
  while (outcome_.violation.empty() && !all_gone() && timeline_.run_next(end)) {
    if (timeline_.events_run() > kMostEvents) violate("the launchers are never quiet");
  }
}

Outcome Life::run() {
  const auto& c = circumstances_;
  const auto& policy = c.policy;
  note(
      fmt::format("{} launchers, {} to {} nodes, {}, {} restarts, {} replacements, {} steps; heartbeat limit {} ms, "
                  "limit {} ms, lease {} ms",
                  c.launchers, policy.min_nodes, policy.max_nodes, c.etcd ? "etcd" : "no etcd", policy.max_restarts,
                  policy.max_replacements, c.steps, policy.heartbeat_limit.count(), c.limit.count(), c.lease.count()));
  start_launcher(!c.etcd);
  for (int i = 1; i < c.launchers; ++i) {
    timeline_.after(network_.time(milliseconds(0), milliseconds(5000)), [this] { start_launcher(false); });
  }
  plan_faults();
  train();
  if (policy.max_replacements > 0) report_lost_ranks();
  run_events();
  if (outcome_.violation.empty()) check_end();
  outcome_.end = closed_ && closed_->phase == elastic::Phase::closed && !closed_->failed ? "completed" : "given up";
  outcome_.events = timeline_.events_run();
  return outcome_;
}

}  // namespace lockstep::simulation::launchers

namespace lockstep::simulation {

Outcome live_launchers(std::uint64_t seed, std::ostream* trace) { return launchers::Life(seed, trace).run(); }

}  // namespace lockstep::simulation
