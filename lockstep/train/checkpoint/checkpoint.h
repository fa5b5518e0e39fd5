// The state of a run as a whole, in the memory of one process.
//
// Tensors:  "model.<name>"      parameters and buffers (under the buffer policy local: rank 0's)
//           "optimizer.<name>"  see optimizer_state
//           "callbacks.<callback>.<name>"  the state of callbacks
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/train/checkpoint/run_state.h>
#include <lockstep/train/named_tensors.h>

#include <optional>
#include <string_view>

namespace lockstep::train {

struct Checkpoint {
  RunState state;
  NamedTensors tensors;
};

/// The part of the state of callbacks, each under its name.
inline constexpr const char* kCallbacksPart = "callbacks";
/// The name of the callback whose tensors are an average of the parameters, by their names.
inline constexpr const char* kAverageCallback = "ema";

/// The tensors of one part ("model", "optimizer", "callbacks"), without its prefix; and the inverse, with the prefix.
NamedTensors part_of(const NamedTensors& tensors, std::string_view part);
void add_part(NamedTensors& tensors, std::string_view part, const NamedTensors& content);

/// Sends a state to all ranks: every rank returns `root`'s `own` (nullopt stays nullopt); `own` of other ranks is
/// ignored. A collective.
std::optional<Checkpoint> broadcast_state(std::optional<Checkpoint> own, const Group& group, int root = 0);

}  // namespace lockstep::train
