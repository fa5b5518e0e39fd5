// The fill of tensors with saved values: each rank reads its part.
#pragma once

#include <lockstep/train/sharded/box.h>

#include <functional>
#include <string>

namespace at {
class Tensor;
}

namespace lockstep::train {

/// Copies a box of the saved tensor of this name into a tensor of the box's sizes.
using ReadBox = std::function<void(const std::string& name, const Box& box, at::Tensor& into)>;

/// Reads this rank's part of a global tensor, or the whole of an ordinary one, into it. Not a collective.
/// Error(invalid_argument) for a view whose values were fetched from other ranks.
void fill(const std::string& name, const at::Tensor& tensor, const ReadBox& read);

}  // namespace lockstep::train
