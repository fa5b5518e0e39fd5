#include <lockstep/scheduler/membership.h>
#include <lockstep/scheduler/ranks.h>

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::scheduler {
namespace {

void lose(Roll& roll, const std::string& what, Time now) {
  if (roll.last_error.empty()) roll.last_error = what;
  if (!roll.broken) roll.broken = now;
  roll.changed = now;
}

}  // namespace

bool seat_all(Roll& roll, const std::string& store_key, Time now) {
  const bool ready = static_cast<int>(roll.members.size()) == roll.wanted &&
                     std::all_of(roll.members.begin(), roll.members.end(), [](const Member& member) {
                       return member.phase == Phase::waiting && member.link == Link::open;
                     });
  if (!ready) return false;
  const auto ranks = choose_ranks(roll.members);
  ++roll.generation;
  roll.store_key = store_key;
  roll.store_host.clear();
  roll.store_port = 0;
  roll.changed = now;
  roll.broken.reset();
  for (std::size_t i = 0; i < roll.members.size(); ++i) {
    Member& member = roll.members[i];
    member.rank = ranks[i];
    member.generation = roll.generation;
    member.phase = Phase::running;
  }
  return true;
}

Seated seat_of(const Roll& roll, const Member& member) {
  Seated seat;
  seat.generation = member.generation;
  seat.rank = member.rank.value_or(0);
  seat.size = roll.wanted;
  seat.store_key = roll.store_key;
  seat.local_size = 0;
  for (const Member& other : roll.members) {
    if (other.machine != member.machine) continue;
    ++seat.local_size;
    if (other.rank < member.rank) ++seat.local_rank;
  }
  return seat;
}

std::optional<std::string> note_closed(Roll& roll, std::uint64_t connection, const std::string& reason, Time now) {
  Member* member = find_connection(roll, connection);
  if (member == nullptr) return std::nullopt;
  member->link = Link::closed;
  member->heard = now;  // by its kernel, or by the end of our patience
  if (is_over(*member)) return std::nullopt;
  const auto what = fmt::format("{} is lost: {}", describe(*member), reason);
  if (member->phase == Phase::running) {
    member->last_error = reason;
    lose(roll, what, now);
  }
  return what;
}

void note_leave(Roll& roll, Member& member, const Leave& leave, Time now) {
  member.phase = leave.ok ? Phase::finished : Phase::failed;
  if (leave.ok) return;
  member.last_error = leave.error;
  lose(roll, fmt::format("{} failed: {}", describe(member), leave.error), now);
}

void excuse_silence(Roll& roll, std::chrono::steady_clock::duration time) {
  for (Member& member : roll.members) member.heard += time;
}

std::vector<std::uint64_t> find_silent(const Roll& roll, Time now) {
  std::vector<std::uint64_t> silent;
  for (const Member& member : roll.members) {
    if (member.link == Link::open && now - member.heard >= roll.patience.silence) silent.push_back(member.connection);
  }
  return silent;
}

std::vector<std::uint64_t> find_hanging(const Roll& roll, Time now) {
  std::vector<std::uint64_t> hanging;
  if (!roll.broken || now - *roll.broken < roll.patience.hang) return hanging;
  for (const Member& member : roll.members) {
    if (member.phase == Phase::running && member.link == Link::open) hanging.push_back(member.connection);
  }
  return hanging;
}

bool note_again(Roll& roll, Member& member, const Again& again, Time now) {
  if (again.generation != roll.generation || member.generation != again.generation) return false;
  if (member.phase != Phase::running) return false;
  member.phase = Phase::waiting;
  roll.changed = now;
  if (!roll.broken) roll.broken = now;
  return true;
}

}  // namespace lockstep::scheduler
