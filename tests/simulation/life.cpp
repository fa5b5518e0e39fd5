// A simulated life of a job of workers: what is drawn for it, and its end.
#include "simulation/life.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulation/world.h"

namespace lockstep::simulation {
namespace {

/// The kinds of faults before clock_jump, which has random numbers of its own: a life that a test names stays the same.
constexpr int kDrawnTogether = static_cast<int>(Fault::clock_jump);

Circumstances drawn(std::uint64_t seed) {
  Chance chance(seed, 0);
  Circumstances c;
  c.launcher = chance.happens(400);
  c.workers = chance.happens(100) ? chance.from_to(9, 40) : chance.from_to(1, 8);
  if (chance.happens(150) && c.workers > 2) c.servers = chance.from_to(1, c.workers - 2);
  c.recovery = c.launcher || chance.happens(850);
  c.named = c.launcher || chance.happens(600);
  c.saves = !c.launcher && c.recovery && chance.happens(800);
  c.secret = c.launcher || chance.happens(300);
  c.programs = c.launcher && chance.happens(300) ? chance.from_to(2, 3) : 1;
  c.steps = chance.from_to(5, 60);
  c.restarts = chance.happens(300) ? chance.from_to(0, 3) : chance.from_to(10, 200);
  c.limits.heartbeat_limit = chance.time(milliseconds(2000), milliseconds(30000));
  c.limits.absence = chance.time(milliseconds(20000), milliseconds(300000));
  c.limits.hang = chance.time(milliseconds(2000), milliseconds(30000));
  c.heartbeat = std::min(milliseconds(3000), c.limits.heartbeat_limit / 4);
  c.latency = chance.time(milliseconds(0), milliseconds(50));
  c.step = chance.time(milliseconds(20), milliseconds(1000));
  c.disk = chance.time(milliseconds(0), milliseconds(100));
  c.start = chance.time(milliseconds(50), milliseconds(3000));
  c.collective_limit = chance.time(milliseconds(5000), milliseconds(60000));
  c.start_limit = c.limits.absence * 2;
  if (chance.happens(200)) c.notice = 0;
  c.slow_end = chance.happens(200);
  c.faults_for = chance.time(milliseconds(5000), milliseconds(120000));
  c.completes = true;
  if (chance.happens(100)) return c;  // a life without faults
  constexpr std::array kHarmless{Fault::kill_worker, Fault::kill_service, Fault::cut,
                                 Fault::stranger,    Fault::slow_disk,    Fault::lost_host};
  Chance clocks(seed, 6);
  if (clocks.happens(250)) c.rates[static_cast<std::size_t>(Fault::clock_jump)] = clocks.from_to(1, 4);
  const bool only_one = chance.happens(100);
  const int one = chance.below(kDrawnTogether);
  for (int kind = 0; kind < kDrawnTogether; ++kind) {
    const bool on = only_one ? kind == one : chance.happens(500);
    c.rates[static_cast<std::size_t>(kind)] = on ? (chance.happens(500) ? 1 : chance.from_to(2, 6)) : 0;
    if (on && std::ranges::find(kHarmless, static_cast<Fault>(kind)) == kHarmless.end()) c.completes = false;
  }
  c.completes = c.completes && c.recovery && c.restarts >= 10 && c.limits.absence >= seconds(60);
  // Without a name, a process is refused as one too many until the one that it replaces counts as lost.
  if (!c.named && c.has(Fault::lost_host)) c.completes = false;
  return c;
}

}  // namespace

const char* name(Fault fault) {
  constexpr std::array<const char*, kFaults> kNames{
      "killed worker",    "killed service", "stopped worker", "stopped service",
      "reset connection", "cut host",       "hanging worker", "second process of an id",
      "stranger",         "slow disk",      "lost host",      "clock of the service that jumps"};
  return kNames.at(static_cast<std::size_t>(fault));
}

std::uint64_t next_hash(std::uint64_t hash, std::int64_t step) {
  return (hash ^ static_cast<std::uint64_t>(step)) * 0x9e3779b97f4a7c15U + 1;
}

std::uint64_t hash_after(std::int64_t steps) {
  std::uint64_t hash = 0;
  for (std::int64_t step = 0; step < steps; ++step) hash = next_hash(hash, step);
  return hash;
}

Life::Life(std::uint64_t seed, std::ostream* trace)
    : Frame(trace),
      circumstances_(drawn(seed)),
      network_(seed, 1),
      disk_(seed, 2),
      pace_(seed, 3),
      trouble_(seed, 4),
      names_(seed, 5),
      clocks_(seed, 7) {}

bool Life::all_gone() const {
  // A process that hangs after the end of its job is the business of whoever started it.
  const auto gone = [this](const auto& worker) {
    return !worker->process.alive || worker->odd || (job_over_ && worker->hung);
  };
  const auto over = [](const Slot& slot) { return slot.given_up; };
  // The service then has to end its job, too.
  const bool kills_service = circumstances_.saves && circumstances_.has(Fault::kill_service);
  if (circumstances_.completes && !circumstances_.launcher && !kills_service && !service_reported_) return false;
  return std::ranges::all_of(workers_, gone) && (job_over_ || std::ranges::all_of(slots_, over));
}

void Life::end_job(const std::string& why) {
  if (job_over_) return;
  job_over_ = true;
  outcome_.end = why;
  note("the job has ended: " + why);
}

std::string Life::describe_left() const {
  std::string text;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const auto& one = *workers_[i];
    if (!one.process.alive || one.odd) continue;
    constexpr std::array<const char*, 8> kDoing{"starting", "registering", "meeting", "computing",
                                                "waiting",  "writing",     "leaving", "gone"};
    text += fmt::format("{}worker {} ({}{})", text.empty() ? "" : ", ", i,
                        kDoing.at(static_cast<std::size_t>(one.doing)), one.hung ? ", hangs" : "");
  }
  if (!service_reported_ && job_over_) return "the service";
  return text.empty() ? "places without a process" : text;
}

Outcome Life::run() {
  const auto& c = circumstances_;
  note(fmt::format(
      "{} with {} workers ({} of them servers), {} steps, {} restarts{}{}{}; limits: heartbeat {} ms, absence {} "
      "ms, hang {} ms",
      c.launcher ? "a launcher" : "a scheduler", c.workers, c.servers, c.steps, c.restarts,
      c.recovery ? ", recovery" : "", c.saves ? ", saved state" : "", c.named ? "" : ", random ids",
      c.limits.heartbeat_limit.count(), c.limits.absence.count(), c.limits.hang.count()));
  slots_.resize(static_cast<std::size_t>(c.workers));
  start_service();
  for (int slot = 0; slot < c.workers; ++slot) start_worker(slot);
  plan_faults();
  // After the last fault, whatever waits for a time limit may wait for several, one after another; and a job that lacks
  // a worker lasts as long as its other processes are started again.
  const auto calm = c.limits.absence * 3 + c.limits.heartbeat_limit * 6 + c.limits.hang * 3 + c.collective_limit * 3 +
                    c.start_limit * (c.restarts + 2) + c.step * c.steps * c.programs * 20 + seconds(120);
  const Time end = timeline_.now() + c.faults_for + calm;
  constexpr std::uint64_t kMostEvents = 2'000'000;
  while (outcome_.violation.empty() && !all_gone() && timeline_.run_next(end)) {
    if (timeline_.events_run() > kMostEvents) violate("the job is never quiet");
  }
  if (outcome_.violation.empty() && !all_gone())
    violate("the job does not end: long after the last fault there are " + describe_left());
  if (outcome_.end.empty()) outcome_.end = "given up by all";
  // Whoever would take a place in a job that is done is refused, again and again.
  const auto has_finished = [](const auto& one) { return one->session.leave && one->session.leave->ok; };
  const bool done = outcome_.end == "given up by all" && std::ranges::any_of(workers_, has_finished);
  if (outcome_.violation.empty() && c.completes && !done && outcome_.end != "completed")
    violate("the job could have been completed, and ended otherwise: " + outcome_.end);
  outcome_.events = timeline_.events_run();
  return outcome_;
}

Outcome live(std::uint64_t seed, std::ostream* trace) { return Life(seed, trace).run(); }

}  // namespace lockstep::simulation
