// Progress reports of a program to its launcher and scheduler: completed steps and backward passes. These functions are
// not collectives. Call them from the thread that uses the group.
#pragma once

#include <lockstep/comm/group.h>

#include <cstdint>

namespace lockstep {

/// Records that this rank has completed step number `step` of its training: when the rank dies, `lockstep run` reports
/// it (LOCKSTEP_STATUS_FILE). Costs little; under a scheduler it also goes into the status. `lockstep train` calls it.
void completed_step(const Group& group, std::int64_t step) noexcept;

/// Records one more backward pass whose gradients were all reduced. DataParallel calls it.
void completed_backward(const Group& group) noexcept;

}  // namespace lockstep
