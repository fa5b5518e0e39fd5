// Majority rules over views: which process may continue, succeed or vote, and which of the probed processes leads.
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

bool is_first(const View& view, const std::string& self, const Ids& ended) {
  const auto own = std::find_if(view.members.begin(), view.members.end(), [&](const auto& m) { return m.id == self; });
  return std::all_of(view.members.begin(), own, [&](const Member& before) { return ended.contains(before.id); });
}

bool may_succeed(const View& view, const std::string& self, const Ballot& ballot) {
  if (2 * count_in(view, ballot.votes) > view.members.size()) return true;
  if (ballot.ended_in_time.empty()) return false;
  auto with = ballot.votes;
  with.insert(ballot.ended_in_time.begin(), ballot.ended_in_time.end());
  return is_first(view, self, ballot.ended) && 2 * count_in(view, with) >= view.members.size();
}

bool may_succeed(const Standing& self, const Ballot& ballot) {
  const auto may = [&](const View& view) { return may_succeed(view, self.id, ballot); };
  return self.view.has(self.id) && may(self.view) && std::all_of(self.earlier.begin(), self.earlier.end(), may);
}

bool may_vote(const Standing& voter, const View& candidate, std::uint64_t epoch) {
  const View& own = voter.view;
  return !voter.leads && voter.free && candidate.store == own.store && epoch > voter.promised && epoch > own.epoch &&
         std::tie(candidate.epoch, candidate.version) >= std::tie(own.epoch, own.version);
}

bool has_ended(const Member& member, const Probe& probe) {
  return probe.ended || (probe.standing && probe.standing->id != member.id);
}

const Probes::value_type* find_leader(const Standing& self, const Probes& probes) {
  const auto is_acceptable = [&](const Standing& other) {
    if (!other.leads) return false;
    if (other.view.store == self.view.store) return other.view.epoch >= self.view.epoch;
    return self.view.store.empty() || other.view.epoch > self.view.epoch;
  };
  const Probes::value_type* best = nullptr;
  for (const auto& found : probes) {
    const auto& standing = found.second.standing;
    if (!standing || !is_acceptable(*standing)) continue;
    if (best == nullptr || standing->view.epoch > best->second.standing->view.epoch) best = &found;
  }
  return best;
}

Prospects prospects(const Standing& self, const Probes& probes) {
  Prospects found{{{self.id}, {}, {}}, std::max(self.promised, self.view.epoch) + 1, {}, true};
  for (const auto& [address, probe] : probes) {
    if (probe.standing && probe.standing->view.store == self.view.store) {
      found.epoch = std::max(found.epoch, probe.standing->promised + 1);
    }
  }
  const auto look_at = [&](const Member& member) {
    const auto probe = probes.find(member.address);
    if (member.id == self.id || probe == probes.end()) return;
    const auto& standing = probe->second.standing;
    if (has_ended(member, probe->second)) {
      found.ballot.ended.insert(member.id);
    } else if (standing && may_vote(*standing, self.view, found.epoch) && found.ballot.votes.insert(member.id).second) {
      found.voters.push_back(member);
    }
  };
  for (const View& view : self.earlier) std::for_each(view.members.begin(), view.members.end(), look_at);
  std::for_each(self.view.members.begin(), self.view.members.end(), look_at);
  for (const Member& member : self.view.members) {
    if (member.id == self.id) break;
    if (found.ballot.votes.contains(member.id)) found.is_first = false;
  }
  return found;
}

}  // namespace lockstep::store
