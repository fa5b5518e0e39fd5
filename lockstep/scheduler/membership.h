// What the scheduler decides about workers that are in: their seats, and what their silence and their words mean. Pure:
// time is an argument, and each decision is a value with its reason. Those that change a roll do nothing else.
#pragma once

#include <lockstep/scheduler/messages.h>
#include <lockstep/scheduler/roll.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::scheduler {

/// Gives every member its rank, in a new generation, when as many are there as are wanted and all of them wait. Ranks
/// are kept for the life of the job. New ones follow the node ids, in the order in which people count ("w2" before
/// "w10"), so that they do not depend on who came first; members with random ids come last, machine by machine.
/// False, and nothing changed, when it is too early.
bool seat_all(Roll& roll, const std::string& store_key, Time now);

/// What a seated member is told. `members` that share its machine count as its local ranks.
Seated seat_of(const Roll& roll, const Member& member);

/// A member's connection ended, for this reason; what is to be said to people about it, if anything.
std::optional<std::string> note_closed(Roll& roll, std::uint64_t connection, const std::string& reason, Time now);

/// A member said that it is done.
void note_leave(Roll& roll, Member& member, const Leave& leave, Time now);

/// Nobody could be heard for so long: the scheduler itself was stopped.
void excuse_silence(Roll& roll, std::chrono::steady_clock::duration time);

/// Connections of members that were silent for too long.
std::vector<std::uint64_t> find_silent(const Roll& roll, Time now);

/// Connections of members that hang: others of their generation cannot go on, and they still compute.
std::vector<std::uint64_t> find_hanging(const Roll& roll, Time now);

/// A member cannot go on in this generation, and waits for the next. False, and nothing changed, when that is of no
/// account: it is of another generation, or the member waits already.
bool note_again(Roll& roll, Member& member, const Again& again, Time now);

}  // namespace lockstep::scheduler
