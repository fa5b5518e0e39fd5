#include <lockstep/scheduler/job_state.h>
#include <lockstep/scheduler/seconds.h>

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::scheduler {
namespace {

// How long a connection that broke may take to be replaced, before its process counts as gone.
constexpr std::chrono::milliseconds kReconnect{5000};

bool failed(const Member& member) { return member.phase == Phase::failed; }
bool computes(const Member& member) { return member.phase == Phase::running && member.link == Link::open; }
bool is_missing(const Member& member) { return !is_over(member) && member.link != Link::open; }

std::string names_of(const Membership& membership, bool (*which)(const Member&)) {
  std::string text;
  for (const Member& member : membership.members) {
    if (which(member)) text += (text.empty() ? "" : ", ") + describe(member);
  }
  return text;
}

std::optional<Ending> end_of_start(const Membership& membership, Time now) {
  // A launcher's ranks have a limit of their own, and may never come: not all programs go on from memory.
  if (membership.programs_follow || now - membership.changed < membership.limits.absence) return std::nullopt;
  return Ending{false, fmt::format("{} of {} workers are there, and no other came for {:.0f} s; start the others, or "
                                   "correct MS_WORKER_NUM, MS_SCHED_HOST and MS_SCHED_PORT where they run",
                                   count_present(membership), membership.wanted, seconds_in(now - membership.changed))};
}

std::optional<Ending> end_of_recovery(const Membership& membership, Time now) {
  if (count_present(membership) == membership.wanted || now - membership.changed < membership.limits.absence)
    return std::nullopt;
  return Ending{false, fmt::format("nobody came in the place of {} for {:.0f} s (first failure: {})",
                                   names_of(membership,
                                            [](const Member& m) { return is_missing(m) || m.phase == Phase::failed; }),
                                   seconds_in(now - membership.changed), membership.last_error)};
}

}  // namespace

std::optional<std::string> find_completion(const Membership& membership) {
  if (!membership.recovery) return std::nullopt;
  const auto done = std::find_if(membership.members.begin(), membership.members.end(),
                                 [](const Member& member) { return member.phase == Phase::finished; });
  if (done == membership.members.end()) return std::nullopt;
  return fmt::format("{} has finished its work; the job needs no other", describe(*done));
}

State state_of(const Membership& membership) {
  const auto& members = membership.members;
  if (membership.generation == 0) return State::starting;
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

std::optional<Ending> find_ending(const Membership& membership, Time now) {
  const auto& members = membership.members;
  if (membership.generation == 0) return end_of_start(membership, now);
  const auto finished = [](const Member& member) { return member.phase == Phase::finished; };
  if (std::all_of(members.begin(), members.end(), finished)) return Ending{};
  const bool all_gone = std::all_of(members.begin(), members.end(), [&](const Member& member) {
    return is_over(member) || (member.link == Link::closed && now - member.heard >= kReconnect);
  });
  if (membership.programs_follow && std::any_of(members.begin(), members.end(), failed)) {
    const bool some_compute = std::any_of(members.begin(), members.end(), computes);
    return some_compute ? std::nullopt : std::optional(Ending{false, membership.last_error});
  }
  // Those who died after the last step of all missed nothing.
  if (membership.recovery && find_completion(membership)) return all_gone ? std::optional(Ending{}) : std::nullopt;
  if (membership.recovery) return end_of_recovery(membership, now);
  if (!all_gone) return std::nullopt;
  return Ending{false, membership.last_error};
}

}  // namespace lockstep::scheduler
