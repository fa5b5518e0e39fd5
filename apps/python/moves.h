// The collectives that move data without computing: how each is made of those of Lockstep.
#pragma once

#include <apps/python/operation_queue.h>

#include <cstdint>
#include <vector>

namespace lockstep::python {

// CallTensors are dense, of any strides, and of one dtype; the callers have checked this. Where the tensors of ranks
// differ in size, each rank knows the sizes of what it sends and receives.

void broadcast_from(int root, CallTensors& tensors, const Group& group, Limit limit);

/// One input; an output for each rank.
void gather_on_all(CallTensors& tensors, const Group& group, Limit limit);

/// One input, and one output that has room for those of all ranks.
void gather_into(at::Tensor& output, const at::Tensor& input, const Group& group, Limit limit);

/// One input; an output for each rank on `root`.
void gather_on(int root, CallTensors& tensors, const Group& group, Limit limit);

/// One output; an input for each rank on `root`.
void scatter_from(int root, CallTensors& tensors, const Group& group, Limit limit);

/// An input and an output for each rank.
void exchange(CallTensors& tensors, const Group& group, Limit limit);

/// The same with slices of one input and one output along dimension 0, of these sizes; empty: equal slices.
void exchange_slices(CallTensors& tensors, const std::vector<std::int64_t>& output_sizes,
                     const std::vector<std::int64_t>& input_sizes, const Group& group, Limit limit);

}  // namespace lockstep::python
