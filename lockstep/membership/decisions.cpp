// Rank assignment (named workers in natural order, others by machine), and losses by missed heartbeats, hang or report.
#include <lockstep/membership/decisions.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace lockstep::membership {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Removes a run of digits from the front and returns it without leading zeros.
std::string_view take_number(std::string_view& text) {
  const auto* end = std::find_if_not(text.begin(), text.end(), is_digit);
  auto number = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(number.size());
  number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
  return number;
}

void lose(Membership& membership, const std::string& what, Time now) {
  if (membership.last_error.empty()) membership.last_error = what;
  if (!membership.broken) membership.broken = now;
  membership.changed = now;
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  const auto whole = std::pair(a, b);
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const auto left = take_number(a);
      const auto right = take_number(b);
      if (left != right) return std::tuple(left.size(), left) < std::tuple(right.size(), right);
    } else {
      if (a.front() != b.front()) return a.front() < b.front();
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  if (a.empty() != b.empty()) return a.empty();
  return whole.first < whole.second;  // "07" and "7"
}

std::vector<int> choose_ranks(const std::vector<Member>& members) {
  std::map<std::string_view, std::size_t> machines;  // in the order of first registration
  std::vector<bool> taken(members.size(), false);
  std::vector<std::size_t> without;
  for (std::size_t i = 0; i < members.size(); ++i) {
    machines.emplace(members[i].machine, i);
    if (members[i].rank) {
      taken.at(static_cast<std::size_t>(*members[i].rank)) = true;
    } else {
      without.push_back(i);
    }
  }
  std::sort(without.begin(), without.end(), [&](std::size_t i, std::size_t k) {
    const Member& a = members[i];
    const Member& b = members[k];
    if (a.server != b.server) return b.server;
    if (a.named != b.named) return a.named;
    if (a.named) return natural_less(a.node_id, b.node_id);
    return std::tuple(machines.at(a.machine), i) < std::tuple(machines.at(b.machine), k);
  });
  std::vector<int> ranks(members.size());
  std::size_t next = 0;
  for (const std::size_t i : without) {
    while (taken.at(next)) ++next;
    ranks[i] = static_cast<int>(next++);
  }
  for (std::size_t i = 0; i < members.size(); ++i) ranks[i] = members[i].rank.value_or(ranks[i]);
  return ranks;
}

bool assign_ranks(Membership& membership, const std::string& store_key, Time now) {
  const bool ready = static_cast<int>(membership.members.size()) == membership.wanted &&
                     std::all_of(membership.members.begin(), membership.members.end(), [](const Member& member) {
                       return member.phase == Phase::waiting && member.link == Link::open;
                     });
  if (!ready) return false;
  const auto ranks = choose_ranks(membership.members);
  membership.saved_generation = ++membership.generation;
  membership.store_key = store_key;
  membership.store_host.clear();
  membership.store_port = 0;
  membership.changed = now;
  membership.broken.reset();
  membership.over.reset();
  membership.last_error.clear();  // all run again; each member keeps the reason of its restart
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
  if (member.generation == membership.generation) assignment.store_key = membership.store_key;
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
  member->heard = now;  // its kernel closed the connection, or our time limit passed
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
  note_over(membership, now);
}

void note_over(Membership& membership, Time now) {
  if (!membership.broken) membership.broken = now;
  if (!membership.over) membership.over = now;
}

void excuse_missed_heartbeats(Membership& membership, std::chrono::steady_clock::duration time) {
  for (Member& member : membership.members) {
    member.heard += time;
    member.entered += time;
    member.advanced += time;
  }
  membership.changed += time;  // nothing could register, either
  if (membership.broken) *membership.broken += time;
  if (membership.over) *membership.over += time;
}

std::vector<std::uint64_t> find_missed_heartbeats(const Membership& membership, Time now) {
  std::vector<std::uint64_t> found;
  for (const Member& member : membership.members) {
    if (member.link == Link::open && now - member.heard >= membership.limits.heartbeat_limit)
      found.push_back(member.connection);
  }
  return found;
}

const std::optional<Time>& hang_begins(const Membership& membership) {
  return membership.recovery ? membership.over : membership.broken;
}

std::vector<std::uint64_t> find_hanging(const Membership& membership, Time now) {
  std::vector<std::uint64_t> hanging;
  const auto& since = hang_begins(membership);
  if (!since || now - *since < membership.limits.hang) return hanging;
  for (const Member& member : membership.members) {
    // A worker that was disconnected gets the report now. One that completes steps does not hang: the lost member of
    // its generation has lost its connection with the service alone.
    const bool stands = now - std::max(member.entered, member.advanced) >= membership.limits.hang;
    if (stands && member.phase == Phase::running && member.link == Link::open) hanging.push_back(member.connection);
  }
  return hanging;
}

bool note_again(Membership& membership, Member& member, const Again& again, Time now) {
  // A member may be in an earlier generation than others: the service ended before it got its place in the newest one.
  if (member.generation != again.generation) return false;
  if (member.phase != Phase::running) return false;
  member.phase = Phase::waiting;
  membership.changed = now;
  note_over(membership, now);
  return true;
}

}  // namespace lockstep::membership
