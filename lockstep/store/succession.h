// The rules of who leads a store with copies, as pure functions. At most one process leads at a time, whatever is lost,
// suspended or cut off:
//
// - An acknowledged write is in the copy of every member of the newest view. A leader makes a view without a silent
//   member only if at least half of the old one (it counts itself) is with it, and steps down if not. More than half
//   that are without it can therefore not come to be while it goes on.
// - What is said of a view holds for all views back to the last one that all its members have had: some may not know of
//   a newer one.
// - Another member succeeds a leader that is silent only with the votes of more than half of the view. Nobody votes
//   who has heard of the leader during the lease, or who has a newer copy, and for one leader in each epoch.
// - A leader whose process has ended (its connection did, and nobody listens at its port or another process does) votes
//   for nobody. If that is found during the lease, it had not dropped the one who found it, and counts as with it; of
//   several the first succeeds, so that two of two go on.
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

/// Whether the leader may go on without the others of this view: `with` are those that it has heard during the lease,
/// itself, and those whose process was found to have ended during the lease.
bool may_go_on(const View& view, const Ids& with);

/// What is found at an address.
struct Probe {
  bool ended = false;                  ///< nobody listens there
  std::optional<Standing> standing{};  ///< nullopt otherwise: it does not answer
};
using Probes = std::map<Address, Probe>;

/// Whether the process of this member has ended, as this shows.
bool has_ended(const Member& member, const Probe& probe);

/// The leader that a process of this standing may follow; nullptr when it has found none.
const Probes::value_type* find_leader(const Standing& self, const Probes& probes);

/// What a member that has lost its leader knows of the others.
struct Ballot {
  Ids votes;          ///< for it, its own included
  Ids ended;          ///< the processes that have ended
  Ids ended_in_time;  ///< the leader, if that was found during the lease
};

bool may_succeed(const View& view, const std::string& self, const Ballot& ballot);
bool may_succeed(const Standing& self, const Ballot& ballot);

/// Whether all members of a view that arrived before it have ended.
bool is_first(const View& view, const std::string& self, const Ids& ended);

/// Those that have ended, and those that would vote for it in that epoch; whether one of these arrived before it.
struct Prospects {
  Ballot ballot;
  std::uint64_t epoch = 0;
  std::vector<Member> voters;
  bool is_first = true;
};
Prospects prospects(const Standing& self, const Probes& probes);

/// Whether this member may vote for one with that view, as the leader of `epoch`.
bool may_vote(const Standing& voter, const View& candidate, std::uint64_t epoch);

}  // namespace lockstep::store
