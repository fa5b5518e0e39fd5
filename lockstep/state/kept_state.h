// The state of a run in the memory of its ranks, from which a new generation of ranks goes on.
//
// Each rank has the whole state, or tensors that all ranks have and a part of the others. Then the next rank in a ring
// keeps a copy of the part, in case a rank is lost.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/state/checkpoint.h>
#include <lockstep/state/resume.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::state {

/// A rank's own part of one step, and its copy of the previous rank's part: tensors named "<begin>.<name>", which hold
/// the elements of the tensor <name> from <begin> on, in the order of its memory, or the whole of it if it has no
/// dimensions; and kOwnBuffers.
struct PartAndCopy {
  NamedTensors own;
  NamedTensors copy;
};

/// The name of the bytes of a rank's own buffers in its part; and in a whole state. Parts are compared without them:
/// when a rank is lost during their broadcast, some ranks may already have rank 0's buffers, and others not.
inline constexpr const char* kOwnBuffers = "buffers";
std::string buffers_key(int rank);

struct KeptParts {
  NamedTensors divided;  ///< the tensors that the parts make up: sizes and strides without values (device meta)
  PartAndCopy last;      ///< after the last step that this rank has completed
  std::optional<PartAndCopy> next;  ///< after the following step, if the rank completed that
};

/// What one rank has kept. Names of tensors as in saved_checkpoint.h.
struct KeptState {
  std::int64_t step = 0;  ///< completed
  std::int64_t epoch = 0;
  std::int64_t evaluations = 0;
  std::string record;       ///< as in saved_checkpoint.h
  NamedTensors shared;      ///< equal on all ranks: all tensors of a whole state
  NamedTensors unshared{};  ///< beside the parts: this rank's values, for names that each rank fills with its own
  std::optional<KeptParts> parts{};  ///< none: the state is whole
};

/// The rank whose copy this rank keeps.
int rank_before(const Group& group);

struct Agreement {
  std::optional<ResumePoint> point;
  std::string reason;  ///< for users; empty if no rank had a state
};

/// Compares what all ranks have kept (recovery_choice.h), and sends the chosen state to all ranks, as a whole: to the
/// point, and into `kept`, which becomes empty where there is no point. Memory: one rank assembles the whole state from
/// parts, of which the others have one at a time. A collective.
Agreement agree_on_state(std::optional<KeptState>& kept, const Group& group);

}  // namespace lockstep::state
