// Queries of a membership: present, missing and lost members, the job's state, and its end.
#include <lockstep/membership/membership.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace lockstep::membership {
namespace {

// The time for a broken connection to be replaced, before its process counts as lost.
constexpr std::chrono::milliseconds kReconnect{5000};

bool failed(const Member& member) { return member.phase == Phase::failed; }
bool computes(const Member& member) { return member.phase == Phase::running && member.link == Link::open; }

std::string names_of(const Membership& membership, bool (*which)(const Member&)) {
  std::string text;
  for (const Member& member : membership.members) {
    if (which(member)) text += (text.empty() ? "" : ", ") + describe(member);
  }
  return text;
}

std::optional<Ending> end_of_start(const Membership& membership, Time now) {
  // A launcher's ranks have their own time limit. They may never register: not all programs can continue from memory.
  if (membership.programs_follow || now - membership.changed < membership.limits.absence) return std::nullopt;
  return Ending{false, fmt::format("{} of {} workers have registered, and no other did for {:.0f} s; start the "
                                   "others, or correct MS_WORKER_NUM, MS_SCHED_HOST and MS_SCHED_PORT where they run",
                                   count_present(membership), membership.wanted, seconds_in(now - membership.changed))};
}

std::optional<Ending> end_of_recovery(const Membership& membership, Time now) {
  if (count_present(membership) == membership.wanted || now - membership.changed < membership.limits.absence)
    return std::nullopt;
  return Ending{false, fmt::format("no process took the place of {} for {:.0f} s (first failure: {})",
                                   names_of(membership,
                                            [](const Member& m) { return is_missing(m) || m.phase == Phase::failed; }),
                                   seconds_in(now - membership.changed), membership.last_error)};
}

}  // namespace

const Member* find_member(const Membership& membership, const std::string& node_id) {
  const auto found = std::find_if(membership.members.begin(), membership.members.end(),
                                  [&](const Member& member) { return member.node_id == node_id; });
  return found == membership.members.end() ? nullptr : &*found;
}

Member* find_member(Membership& membership, const std::string& node_id) {
  return const_cast<Member*>(find_member(std::as_const(membership), node_id));
}

Member* find_connection(Membership& membership, std::uint64_t connection) {
  const auto found = std::find_if(membership.members.begin(), membership.members.end(), [&](const Member& member) {
    return member.link == Link::open && member.connection == connection;
  });
  return found == membership.members.end() ? nullptr : &*found;
}

std::string describe(const Member& member) {
  const std::string rank = member.rank ? fmt::format("rank {}, ", *member.rank) : "";
  return fmt::format("worker '{}' ({}pid {} on {})", member.node_id, rank, member.pid, member.host);
}

bool is_over(const Member& member) { return member.phase == Phase::finished || member.phase == Phase::failed; }
bool is_missing(const Member& member) { return !is_over(member) && member.link != Link::open; }

bool is_outdated(const Membership& membership, const Member& member) {
  return member.connection == 0 && member.generation < membership.generation &&
         membership.generation > membership.saved_generation;
}

int count_present(const Membership& membership) {
  return static_cast<int>(std::count_if(membership.members.begin(), membership.members.end(), [](const Member& member) {
    return member.link == Link::open && (member.phase == Phase::waiting || member.phase == Phase::running);
  }));
}

std::string describe_missing(const Membership& membership) {
  if (!membership.programs_follow) return {};
  std::vector<int> missing;
  for (int rank = 0; rank < membership.wanted; ++rank) {
    const Member* member = find_member(membership, std::to_string(rank));
    if (member == nullptr || member->link != Link::open) missing.push_back(rank);
  }
  if (missing.empty()) return {};
  return fmt::format("rank{} {} ha{} not registered", missing.size() == 1 ? "" : "s", fmt::join(missing, ", "),
                     missing.size() == 1 ? "s" : "ve");
}

std::vector<int> lost_ranks(const Membership& membership) {
  std::vector<int> lost;
  for (const Member& member : membership.members) {
    if (member.rank && is_missing(member)) lost.push_back(*member.rank);
  }
  std::sort(lost.begin(), lost.end());
  return lost;
}

std::optional<std::string> find_completion(const Membership& membership) {
  if (!membership.recovery) return std::nullopt;
  const auto done = std::find_if(membership.members.begin(), membership.members.end(),
                                 [](const Member& member) { return member.phase == Phase::finished; });
  if (done == membership.members.end()) return std::nullopt;
  return fmt::format("{} has finished its work; the job needs no other", describe(*done));
}

std::string describe_awaited(const Membership& membership) {
  if (membership.generation == 0) {
    const int missing = membership.wanted - count_present(membership);
    return missing > 0 ? fmt::format("{} of {} workers have not registered", missing, membership.wanted) : "";
  }
  if (!membership.recovery || find_completion(membership)) return {};
  const auto names = names_of(membership, is_missing);
  return names.empty() ? "" : fmt::format("a process in the place of {}", names);
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
  const bool complete = find_completion(membership).has_value();
  const bool all_gone = std::all_of(members.begin(), members.end(), [&](const Member& member) {
    // The replacement of a rank that was lost in the last operation of all: its launcher ends it.
    const bool unneeded = complete && membership.programs_follow && member.generation == 0;
    return unneeded || is_over(member) || (member.link == Link::closed && now - member.heard >= kReconnect);
  });
  if (membership.programs_follow && std::any_of(members.begin(), members.end(), failed)) {
    const bool some_compute = std::any_of(members.begin(), members.end(), computes);
    return some_compute ? std::nullopt : std::optional(Ending{false, membership.last_error});
  }
  // Workers that died after the last step of all workers have completed their work.
  if (complete) return all_gone ? std::optional(Ending{}) : std::nullopt;
  if (membership.recovery) return end_of_recovery(membership, now);
  if (!all_gone) return std::nullopt;
  return Ending{false, membership.last_error};
}

}  // namespace lockstep::membership
