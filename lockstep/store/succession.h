// The rules for the leader of a store with copies, as pure functions. At most one process leads at a time, for any
// loss, suspension or partition:
//
// - An acknowledged write is in the copy of every member of the newest view. A leader drops a silent member by a new
//   view only if it has contact with at least half of the old view (it counts itself), and steps down otherwise. While
//   it continues, more than half of the view can therefore not be without it.
// - A rule for a view holds for all views back to the last one that all its members have had: some may not have a newer
//   one.
// - Another member succeeds a silent leader only with the votes of more than half of the view. A member does not vote
//   if it had contact with the leader during the lease, or has a newer copy, and it votes for one leader in each epoch.
// - A leader whose process has ended (its connection has ended, and no process or another process listens at its port)
//   has no vote. If a member detects this during the lease, the leader had not dropped that member, and counts as with
//   it. If several members detect it, the first one succeeds, so that two of two can continue.
#pragma once

#include <lockstep/store/view.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace lockstep::store {

using Ids = std::set<std::string, std::less<>>;

/// Whether the leader may continue without the other members of this view. `with`: the members from which it received a
/// message during the lease, itself, and those whose process was found to have ended during the lease.
bool may_go_on(const View& view, const Ids& with);

/// The result of a probe of an address.
struct Probe {
  bool ended = false;                  ///< no process listens there
  std::optional<Standing> standing{};  ///< nullopt if it has not ended: it does not answer
};
using Probes = std::map<Address, Probe>;

/// Whether this probe shows that the process of this member has ended.
bool has_ended(const Member& member, const Probe& probe);

/// The leader that a process of this standing may follow; nullptr when it has found none.
const Probes::value_type* find_leader(const Standing& self, const Probes& probes);

/// The information that a member that has lost its leader has about the other members.
struct Ballot {
  Ids votes;          ///< the members that vote for it, itself included
  Ids ended;          ///< the processes that have ended
  Ids ended_in_time;  ///< the leader, if its end was detected during the lease
};

bool may_succeed(const View& view, const std::string& self, const Ballot& ballot);
bool may_succeed(const Standing& self, const Ballot& ballot);

/// Whether all members of a view that joined before it have ended.
bool is_first(const View& view, const std::string& self, const Ids& ended);

/// The members that have ended, and those that would vote for it in that epoch; whether one of these joined before it.
struct Prospects {
  Ballot ballot;
  std::uint64_t epoch = 0;
  std::vector<Member> voters;
  bool is_first = true;
};
Prospects prospects(const Standing& self, const Probes& probes);

/// Whether this member may vote for a candidate with that view, as the leader of `epoch`.
bool may_vote(const Standing& voter, const View& candidate, std::uint64_t epoch);

}  // namespace lockstep::store
