#include <lockstep/scheduler/job_state.h>
#include <lockstep/scheduler/seconds.h>

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::scheduler {
namespace {

// How long a connection that broke may take to be replaced, before its process counts as gone.
constexpr std::chrono::milliseconds kReconnect{5000};

bool is_missing(const Member& member) { return !is_over(member) && member.link != Link::open; }

std::string names_of(const Roll& roll, bool (*which)(const Member&)) {
  std::string text;
  for (const Member& member : roll.members) {
    if (which(member)) text += (text.empty() ? "" : ", ") + describe(member);
  }
  return text;
}

std::optional<Ending> end_of_start(const Roll& roll, Time now) {
  if (now - roll.changed < roll.patience.absence) return std::nullopt;
  return Ending{false, fmt::format("{} of {} workers are there, and no other came for {:.0f} s; start the others, or "
                                   "correct MS_WORKER_NUM, MS_SCHED_HOST and MS_SCHED_PORT where they run",
                                   count_present(roll), roll.wanted, seconds_in(now - roll.changed))};
}

std::optional<Ending> end_of_recovery(const Roll& roll, Time now) {
  if (count_present(roll) == roll.wanted || now - roll.changed < roll.patience.absence) return std::nullopt;
  return Ending{false,
                fmt::format("nobody came in the place of {} for {:.0f} s (first failure: {})",
                            names_of(roll, [](const Member& m) { return is_missing(m) || m.phase == Phase::failed; }),
                            seconds_in(now - roll.changed), roll.last_error)};
}

}  // namespace

std::optional<std::string> find_completion(const Roll& roll) {
  if (!roll.recovery) return std::nullopt;
  const auto done = std::find_if(roll.members.begin(), roll.members.end(),
                                 [](const Member& member) { return member.phase == Phase::finished; });
  if (done == roll.members.end()) return std::nullopt;
  return fmt::format("{} has finished its work; the job needs no other", describe(*done));
}

State state_of(const Roll& roll) {
  const auto& members = roll.members;
  if (roll.generation == 0) return State::starting;
  if (std::all_of(members.begin(), members.end(), is_over)) return State::exit;
  return std::any_of(members.begin(), members.end(), is_missing) ? State::node_timeout : State::ready;
}

const char* name(State state) {
  switch (state) {
    case State::starting: return "CLUSTER_STARTING";
    case State::ready: return "CLUSTER_READY";
    case State::node_timeout: return "NODE_TIMEOUT";
    case State::exit: return "CLUSTER_EXIT";
  }
  return "?";
}

std::optional<Ending> find_ending(const Roll& roll, Time now) {
  const auto& members = roll.members;
  if (roll.generation == 0) return end_of_start(roll, now);
  const auto finished = [](const Member& member) { return member.phase == Phase::finished; };
  if (std::all_of(members.begin(), members.end(), finished)) return Ending{};
  const bool all_gone = std::all_of(members.begin(), members.end(), [&](const Member& member) {
    return is_over(member) || (member.link == Link::closed && now - member.heard >= kReconnect);
  });
  // Those who died after the last step of all missed nothing.
  if (roll.recovery && find_completion(roll)) return all_gone ? std::optional(Ending{}) : std::nullopt;
  if (roll.recovery) return end_of_recovery(roll, now);
  if (!all_gone) return std::nullopt;
  return Ending{false, roll.last_error};
}

}  // namespace lockstep::scheduler
