// How a process that knows its rank becomes a member of the group of all.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/scheduler/seat.h>

#include <memory>
#include <optional>

namespace lockstep::detail {

/// Meets the other ranks. `seat`: under a scheduler, else nullptr. Errors as connect().
Group join(const World& world, std::shared_ptr<scheduler::Seat> seat, const GroupOptions& settings);

/// The same where a rank that is lost on the way is replaced: then with the next generation, and so on. nullopt when
/// the job was completed meanwhile. Errors: the last one's, when it fails again and again; those of Seat.
std::optional<Group> join_with_recovery(const World& world, const std::shared_ptr<scheduler::Seat>& seat,
                                        const GroupOptions& settings);

}  // namespace lockstep::detail
