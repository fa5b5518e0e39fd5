// The rules of who leads a store with copies, as pure functions. At most one process leads at a time, whatever is lost,
// suspended or cut off:
//
// - An acknowledged write is in the copy of every member of the newest view. A leader makes a view without a silent
//   member only if at least half of the old one (it counts itself) is with it, and steps down if not. More than half
//   that are without it can therefore not come to be while it goes on.
// - Another member succeeds a leader that is silent only with the votes of more than half of the view. Nobody votes
//   who has heard of the leader during the lease, or who has a newer copy, and for one leader in each epoch.
// - A leader whose process has ended (its connection did, and nobody listens at its port or another process does) votes
//   for nobody. If that is found during the lease, it had not dropped the one who found it, and counts as with it; of
//   several the first succeeds, so that two of two go on.
#pragma once

#include <lockstep/store/view.h>

#include <cstdint>
#include <set>
#include <string>

namespace lockstep::store {

using Ids = std::set<std::string, std::less<>>;

/// Whether the leader may go on without the others of this view: `with` are those that it has heard during the lease,
/// itself, and those whose process was found to have ended during the lease.
bool may_go_on(const View& view, const Ids& with);

/// What a member that has lost its leader knows of the others.
struct Ballot {
  Ids votes;                          ///< for it, its own included
  Ids ended;                          ///< the processes that have ended
  bool leader_ended_in_time = false;  ///< that of the leader, as was found during the lease
};

bool may_succeed(const View& view, const std::string& self, const Ballot& ballot);

/// Whether this member may vote for one with that view, as the leader of `epoch`.
bool may_vote(const Standing& voter, const View& candidate, std::uint64_t epoch);

}  // namespace lockstep::store
