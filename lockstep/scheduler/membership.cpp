#include <lockstep/scheduler/membership.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace lockstep::scheduler {

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
  return fmt::format("rank{} {} ha{} not come", missing.size() == 1 ? "" : "s", fmt::join(missing, ", "),
                     missing.size() == 1 ? "s" : "ve");
}

}  // namespace lockstep::scheduler
