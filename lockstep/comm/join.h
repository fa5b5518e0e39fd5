// Joining the job: a process that knows its rank becomes a member of the group of all ranks.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/world/member_session.h>

#include <memory>
#include <optional>

namespace lockstep::detail {

/// Connects to the other ranks. `session`: under a scheduler, else nullptr. Errors as connect().
Group join(const World& world, std::shared_ptr<MemberSession> session, const GroupOptions& settings);

/// The same with replacement of ranks that are lost meanwhile: it is then tried with the next generation. nullopt when
/// the job was completed meanwhile. Errors: that of the last attempt, when all fail; those of MemberSession.
std::optional<Group> join_with_recovery(const World& world, const std::shared_ptr<MemberSession>& session,
                                        const GroupOptions& settings);

}  // namespace lockstep::detail
