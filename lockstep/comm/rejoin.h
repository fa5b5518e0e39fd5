// Going on with a job after ranks of it were lost: the others keep their processes and what they have in memory, and
// meet again with those that took the places of the lost.
//
//     std::optional<Group> group = lockstep::init();
//     while (group) {
//       const LossWatch watch(*group);
//       try { ... work ...; break; }
//       catch (const Error& error) { if (!can_rejoin(*group) || !is_loss(error)) throw; }
//       group = rejoin(std::move(*group), "why");       // outside of the catch, with everything gone that uses the
//       group
//     }
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/comm/group.h>

#include <memory>
#include <optional>
#include <string>

namespace lockstep {

/// Whether a scheduler replaces lost workers of this job (MS_ENABLE_RECOVERY=1).
bool can_rejoin(const Group& group);

/// Whether an error says that other ranks are the cause, so that this one may go on with the next generation.
bool is_loss(const Error& error);

/// Gives the group up, which must be the last handle to any group of the job, waits until somebody took the place of
/// those that were lost, and returns the group of all ranks in the next generation; this process has its old rank.
/// nullopt when the job was completed meanwhile: some rank had ended well, and nothing is left to do. Errors:
/// peer_lost when nobody came in time, environment when the scheduler refuses this worker; those of connect().
std::optional<Group> rejoin(Group group, const std::string& reason);

/// While alive, what ranks of `group` wait for in collectives fails as soon as the scheduler knows that it will not end
/// well; else they notice only what they see themselves: processes that end, connections that break. Without a
/// scheduler it does nothing. Must end before the last handle to the group does.
class LossWatch {
 public:
  explicit LossWatch(const Group& group);
  LossWatch(const LossWatch&) = delete;
  LossWatch& operator=(const LossWatch&) = delete;
  ~LossWatch();

 private:
  Group group_;
};

}  // namespace lockstep
