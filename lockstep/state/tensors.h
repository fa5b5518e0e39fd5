// Named tensors: described, in the parts of a state, hashed one after the other, and sent between ranks.
#pragma once

#include <lockstep/base/crypto.h>
#include <lockstep/comm/group.h>
#include <lockstep/state/checkpoint.h>

#include <string>
#include <string_view>

namespace lockstep::state {

/// A tensor's dtype and sizes in messages: "Float [8, 3, 32, 32]".
std::string dtype_and_sizes(const at::Tensor& tensor);

/// Adds one tensor as sha256_of does, which adds all in the order of their names: for states that are never in memory
/// as a whole.
void add_to_hash(Sha256& hash, const std::string& name, const at::Tensor& tensor);

/// The tensors of one part ("model", "optimizer", "callbacks"), without its prefix; and the inverse, with the prefix.
NamedTensors part_of(const NamedTensors& tensors, std::string_view part);
void add_part(NamedTensors& tensors, std::string_view part, const NamedTensors& content);

/// Sends `root`'s tensors to all ranks, whose own are replaced. A collective.
void broadcast_tensors(NamedTensors& tensors, const Group& group, int root);

}  // namespace lockstep::state
