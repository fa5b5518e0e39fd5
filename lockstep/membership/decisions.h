// The scheduler's decisions about registered workers: their ranks, and their loss by missed heartbeats or by report.
// Pure: time is an argument, and each decision is a value with its reason. Functions that change a membership have no
// other effect.
#pragma once

#include <lockstep/membership/membership.h>
#include <lockstep/membership/messages.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::membership {

/// Whether `a` precedes `b` in natural order: runs of digits count as numbers, so "w2" precedes "w10".
bool natural_less(std::string_view a, std::string_view b);

/// A rank for each member, by its index: its present rank, or a free one.
std::vector<int> choose_ranks(const std::vector<Member>& members);

/// Gives every member its rank, in a new generation, when all wanted workers have registered and wait. Ranks
/// are kept as long as the job runs. New ones follow the node ids, in natural order ("w2" before
/// "w10"), so that they do not depend on the order of registration; members with random ids come last, machine by
/// machine. Parameter servers come after all workers. False, and nothing changed, when it is too early.
bool assign_ranks(Membership& membership, const std::string& store_key, Time now);

/// The message for a member that has a rank. `members` that share its machine count as its local ranks. Without the
/// key of the store for a member of an earlier generation, as only the newest key is kept.
RankAssignment assignment_of(const Membership& membership, const Member& member);

/// Records the end of a member's connection, for this reason; returns the line for the log, if any.
std::optional<std::string> note_closed(Membership& membership, std::uint64_t connection, const std::string& reason,
                                       Time now);

/// Records a member's report that it has finished.
void note_leave(Membership& membership, Member& member, const Leave& leave, Time now);

/// Records that the present generation is over for certain.
void note_over(Membership& membership, Time now);

/// Excludes a time in which the scheduler itself was stopped and could receive neither heartbeats nor reports.
void excuse_missed_heartbeats(Membership& membership, std::chrono::steady_clock::duration time);

/// Connections of members without a heartbeat for too long.
std::vector<std::uint64_t> find_missed_heartbeats(const Membership& membership, Time now);

/// The time since which a member that still computes may hang: with recovery, that its generation is over for certain,
/// as another member then reports that it waits; else that a connection has ended, as the job cannot go on.
const std::optional<Time>& hang_begins(const Membership& membership);

/// Connections of members that hang: they compute, and complete no step, although their generation is over.
std::vector<std::uint64_t> find_hanging(const Membership& membership, Time now);

/// Records that a member cannot continue in this generation, and waits for the next. False, and nothing changed, when
/// the message has no effect: it is from another generation, or the member already waits.
bool note_again(Membership& membership, Member& member, const Again& again, Time now);

}  // namespace lockstep::membership
