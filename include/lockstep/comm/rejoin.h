// Recovery of a job after the loss of ranks: the other ranks keep their processes and memory, and form a new group with
// the ranks that replace the lost ones.
//
//     GroupOptions options;
//     options.rejoins = true;
//     std::optional<Group> group = lockstep::init(options);
//     while (group) {
//       std::string why;
//       try {
//         const LossWatch watch(*group);
//         ... work ...; break;
//       } catch (const Error& error) {
//         if (!can_rejoin(*group) || !is_loss(error)) throw;
//         why = error.what();
//       }
//       // Outside of the catch, after all objects that use the group are destroyed.
//       group = rejoin(std::move(*group), why);
//     }
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/comm/group.h>

#include <memory>
#include <optional>
#include <string>

namespace lockstep {

/// Whether lost ranks of this job are replaced: by a scheduler with recovery (MS_ENABLE_RECOVERY=1), or by `lockstep
/// run` where the group was made with GroupOptions::rejoins.
bool can_rejoin(const Group& group);

/// Whether an error was caused by the loss of other ranks, so that this rank may continue in the next generation (the
/// group formed after the replacement).
bool is_loss(const Error& error);

/// Releases `group`, which must be the last handle to any group of the job, waits until the lost ranks are replaced,
/// and returns the group of all ranks in the next generation; this process keeps its rank. nullopt when the job was
/// completed meanwhile: some rank had exited successfully, and nothing is left to do. Errors: peer_lost when no
/// replacement joined in time, environment when the scheduler rejects this worker; those of connect().
std::optional<Group> rejoin(Group group, const std::string& reason);

/// While it exists, collectives that this rank waits for fail as soon as the scheduler reports that they cannot
/// succeed; without it a rank detects only local signs: processes that end, connections that break. Without a scheduler
/// it does nothing. Must be destroyed before the last handle to the group.
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
