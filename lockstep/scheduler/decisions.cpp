#include <lockstep/scheduler/decisions.h>
#include <lockstep/scheduler/ranks.h>

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::scheduler {
namespace {

void lose(Membership& membership, const std::string& what, Time now) {
  if (membership.last_error.empty()) membership.last_error = what;
  if (!membership.broken) membership.broken = now;
  membership.changed = now;
}

}  // namespace

bool assign_ranks(Membership& membership, const std::string& store_key, Time now) {
  const bool ready = static_cast<int>(membership.members.size()) == membership.wanted &&
                     std::all_of(membership.members.begin(), membership.members.end(), [](const Member& member) {
                       return member.phase == Phase::waiting && member.link == Link::open;
                     });
  if (!ready) return false;
  const auto ranks = choose_ranks(membership.members);
  ++membership.generation;
  membership.store_key = store_key;
  membership.store_host.clear();
  membership.store_port = 0;
  membership.changed = now;
  membership.broken.reset();
  for (std::size_t i = 0; i < membership.members.size(); ++i) {
    Member& member = membership.members[i];
    member.rank = ranks[i];
    member.generation = membership.generation;
    member.phase = Phase::running;
  }
  return true;
}

RankAssignment assignment_of(const Membership& membership, const Member& member) {
  RankAssignment assignment;
  assignment.generation = member.generation;
  assignment.rank = member.rank.value_or(0);
  assignment.size = membership.wanted;
  assignment.store_key = membership.store_key;
  assignment.local_size = 0;
  for (const Member& other : membership.members) {
    if (other.machine != member.machine) continue;
    ++assignment.local_size;
    if (other.rank < member.rank) ++assignment.local_rank;
  }
  return assignment;
}

std::optional<std::string> note_closed(Membership& membership, std::uint64_t connection, const std::string& reason,
                                       Time now) {
  Member* member = find_connection(membership, connection);
  if (member == nullptr) return std::nullopt;
  member->link = Link::closed;
  member->heard = now;  // by its kernel, or by the end of our limits
  if (is_over(*member)) return std::nullopt;
  const auto what = fmt::format("{} is lost: {}", describe(*member), reason);
  if (member->phase == Phase::running) {
    member->last_error = reason;
    lose(membership, what, now);
  }
  return what;
}

void note_leave(Membership& membership, Member& member, const Leave& leave, Time now) {
  member.phase = leave.ok ? Phase::finished : Phase::failed;
  if (leave.ok) return;
  member.last_error = leave.error;
  lose(membership, fmt::format("{} failed: {}", describe(member), leave.error), now);
}

void excuse_silence(Membership& membership, std::chrono::steady_clock::duration time) {
  for (Member& member : membership.members) member.heard += time;
}

std::vector<std::uint64_t> find_silent(const Membership& membership, Time now) {
  std::vector<std::uint64_t> silent;
  for (const Member& member : membership.members) {
    if (member.link == Link::open && now - member.heard >= membership.limits.silence)
      silent.push_back(member.connection);
  }
  return silent;
}

std::vector<std::uint64_t> find_hanging(const Membership& membership, Time now) {
  std::vector<std::uint64_t> hanging;
  if (!membership.broken || now - *membership.broken < membership.limits.hang) return hanging;
  for (const Member& member : membership.members) {
    if (member.phase == Phase::running && member.link == Link::open) hanging.push_back(member.connection);
  }
  return hanging;
}

bool note_again(Membership& membership, Member& member, const Again& again, Time now) {
  if (again.generation != membership.generation || member.generation != again.generation) return false;
  if (member.phase != Phase::running) return false;
  member.phase = Phase::waiting;
  membership.changed = now;
  if (!membership.broken) membership.broken = now;
  return true;
}

}  // namespace lockstep::scheduler
