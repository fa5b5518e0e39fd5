#include <lockstep/store/succession.h>

#include <algorithm>
#include <tuple>

namespace lockstep::store {
namespace {

std::size_t count_in(const View& view, const Ids& ids) {
  return static_cast<std::size_t>(std::count_if(view.members.begin(), view.members.end(),
                                                [&](const Member& member) { return ids.contains(member.id); }));
}

}  // namespace

bool may_go_on(const View& view, const Ids& with) { return 2 * count_in(view, with) >= view.members.size(); }

bool may_succeed(const View& view, const std::string& self, const Ballot& ballot) {
  if (!view.has(self)) return false;
  const auto votes = count_in(view, ballot.votes);
  if (2 * votes > view.members.size()) return true;
  if (!ballot.leader_ended_in_time || ballot.votes.contains(view.leader())) return false;
  const auto own = std::find_if(view.members.begin(), view.members.end(), [&](const auto& m) { return m.id == self; });
  const bool is_first =
      std::all_of(view.members.begin(), own, [&](const Member& before) { return ballot.ended.contains(before.id); });
  return is_first && 2 * (votes + 1) >= view.members.size();
}

bool may_vote(const Standing& voter, const View& candidate, std::uint64_t epoch) {
  const View& own = voter.view;
  return !voter.leads && voter.free && candidate.store == own.store && epoch > voter.promised && epoch > own.epoch &&
         std::tie(candidate.epoch, candidate.version) >= std::tie(own.epoch, own.version);
}

}  // namespace lockstep::store
