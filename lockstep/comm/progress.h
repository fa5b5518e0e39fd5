// What a program tells whoever looks after it about how far it has come.
#pragma once

#include <lockstep/comm/group.h>

#include <cstdint>

namespace lockstep {

/// Notes that this rank has completed step number `step` of its training: when it dies, `lockstep run` says so. Costs
/// two stores to memory; does nothing where nobody asked (LOCKSTEP_STATUS_FILE). `lockstep train` calls it.
void completed_step(const Group& group, std::int64_t step) noexcept;

/// Notes one more backward pass whose gradients were all reduced. DataParallel calls it.
void completed_backward(const Group& group) noexcept;

}  // namespace lockstep
