#include <lockstep/scheduler/roll.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::scheduler {

const Member* find_member(const Roll& roll, const std::string& node_id) {
  const auto found = std::find_if(roll.members.begin(), roll.members.end(),
                                  [&](const Member& member) { return member.node_id == node_id; });
  return found == roll.members.end() ? nullptr : &*found;
}

Member* find_member(Roll& roll, const std::string& node_id) {
  return const_cast<Member*>(find_member(std::as_const(roll), node_id));
}

Member* find_connection(Roll& roll, std::uint64_t connection) {
  const auto found = std::find_if(roll.members.begin(), roll.members.end(), [&](const Member& member) {
    return member.link == Link::open && member.connection == connection;
  });
  return found == roll.members.end() ? nullptr : &*found;
}

std::string describe(const Member& member) {
  const std::string rank = member.rank ? fmt::format("rank {}, ", *member.rank) : "";
  return fmt::format("worker '{}' ({}pid {} on {})", member.node_id, rank, member.pid, member.host);
}

bool is_over(const Member& member) { return member.phase == Phase::finished || member.phase == Phase::failed; }

int count_present(const Roll& roll) {
  return static_cast<int>(std::count_if(roll.members.begin(), roll.members.end(), [](const Member& member) {
    return member.link == Link::open && (member.phase == Phase::waiting || member.phase == Phase::running);
  }));
}

}  // namespace lockstep::scheduler
