#include "chaos/strikes.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <thread>

#include "cli/two_nodes.h"

namespace lockstep::test {
namespace {

using std::chrono::milliseconds;

double seconds(std::chrono::steady_clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

Strikes::Strikes(const Order& order, SupervisedJob& job, Disk& disk, bool has_hosts)
    : job_(job), disk_(disk), has_hosts_(has_hosts), random_(order.seed), time_(order.seconds) {}

bool Strikes::wreak() {
  // However long the start takes: what dies while it trains is what this is about.
  while (job_.log_of_scheduler().find(", generation 1") == std::string::npos) {
    if (rest(milliseconds(100))) return true;
    if (seconds(Clock::now() - start_) > 300) return false;
  }
  start_ = Clock::now();
  const auto end = start_ + time_;
  bool ended = false;
  while (!ended && Clock::now() < end) {
    ended = rest(pick_time(300, 4300));
    if (!ended) strike();
  }
  end_what_is_over(Clock::time_point::max());
  return ended || job_.tend_to_the_end(std::chrono::seconds(300) + 2 * time_);
}

milliseconds Strikes::pick_time(int least_ms, int most_ms) { return milliseconds(least_ms + pick(most_ms - least_ms)); }

bool Strikes::rest(milliseconds time) {
  const auto until = Clock::now() + time;
  while (Clock::now() < until) {
    end_what_is_over(Clock::now());
    if (job_.tend()) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

void Strikes::say(const std::string& what) { fmt::print("{:7.1f} s  {}\n", seconds(Clock::now() - start_), what); }

// What lasts already, lasts longer.
void Strikes::last(const std::string& what, milliseconds time, const std::function<void()>& begin,
                   std::function<void()> end) {
  say(fmt::format("{} for {:.1f} s", what, seconds(time)));
  const auto until = Clock::now() + time;
  const auto [found, is_new] = lasting_.try_emplace(what, until, std::move(end));
  found->second.until = std::max(found->second.until, until);
  if (is_new) begin();
}

void Strikes::end_what_is_over(Clock::time_point now) {
  std::erase_if(lasting_, [&](const auto& one) {
    if (one.second.until > now) return false;
    one.second.end();
    say(fmt::format("  no more: {}", one.first));
    return true;
  });
}

void Strikes::strike() {
  ++count_;
  switch (pick(14)) {
    case 0:
    case 1: say("kill the scheduler"); return job_.signal_scheduler(SIGKILL);
    case 2: return stop_scheduler();
    case 3: kill(pick(job_.workers())); return kill(pick(job_.workers()));
    case 4:
    case 5: return stop_worker();
    case 6: return pick(2) == 0 ? kill_all() : kill(pick(job_.workers()));
    case 7:
    case 8: return part_hosts();
    case 9:
    case 10: return fill_disk();
    case 11: return slow_disk();
    default: return kill(pick(job_.workers()));
  }
}

void Strikes::kill(int worker) {
  const bool hit = job_.signal_worker(worker, SIGKILL);
  say(fmt::format("kill worker {}{}", worker, hit ? "" : " (which is not there)"));
}

void Strikes::kill_all() {
  for (int worker = 0; worker < job_.workers(); ++worker) kill(worker);
}

// Shorter than MS_NODE_TIMEOUT nobody minds; a manager kills what has hung for longer.
void Strikes::stop_worker() {
  const int worker = pick(job_.workers());
  const int end = pick(2) == 0 ? SIGCONT : SIGKILL;
  last(
      fmt::format("stop worker {}, {} it in the end", worker, end == SIGCONT ? "continue" : "kill"),
      pick_time(200, 3200), [=, this] { job_.signal_worker(worker, SIGSTOP); },
      [=, this] { job_.signal_worker(worker, end); });
}

// At times longer than MS_NODE_TIMEOUT: it must not hold its own absence against the workers.
void Strikes::stop_scheduler() {
  const bool long_time = pick(4) == 0;
  last(
      "stop the scheduler", long_time ? pick_time(11'000, 13'000) : pick_time(200, 5000),
      [this] { job_.signal_scheduler(SIGSTOP); }, [this] { job_.signal_scheduler(SIGCONT); });
}

void Strikes::part_hosts() {
  const bool long_time = pick(2) == 0;
  const auto time = long_time ? pick_time(5000, 13'000) : pick_time(200, 2000);
  if (!has_hosts_) return say("(there is one host: nothing to part)");
  last(
      "part the hosts", time, [] { TwoHosts::unplug(); }, [] { TwoHosts::plug_in(); });
}

void Strikes::fill_disk() {
  const auto time = pick_time(500, 6000);
  if (!disk_.obstacle().empty()) return say("(the disk cannot be filled)");
  last(
      "fill the disk", time, [this] { disk_.fill(); }, [this] { disk_.free(); });
}

void Strikes::slow_disk() {
  const auto delay = pick_time(100, 1500);
  last(
      "slow down the disk", pick_time(1000, 8000), [=, this] { disk_.delay_each_sync(delay); },
      [this] { disk_.delay_each_sync({}); });
}

}  // namespace lockstep::test
