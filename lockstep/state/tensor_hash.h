// The hash of named tensors, one tensor after the other: for states that are never in memory as a whole.
#pragma once

#include <lockstep/base/sha256.h>

#include <string>

namespace at {
class Tensor;
}

namespace lockstep::state {

/// A tensor's dtype and sizes, as the hash has them: "Float [2,3]".
std::string text_of_form(const at::Tensor& tensor);

/// Adds one tensor as sha256_of(NamedTensors) does, which adds all in the order of their names.
void add_to_hash(Sha256& hash, const std::string& name, const at::Tensor& tensor);

}  // namespace lockstep::state
