// The plan of each collective: which engine moves which data. One source for each family:
//   reductions.cpp   all_reduce, reduce, reduce_scatter
//   copies.cpp       broadcast, all_gather, barrier
//   exchanges.cpp    gather, scatter, all_to_all, send, receive
//
// The tensors are those of Backend's functions; the plans hold them. `Engines` must outlive the plan.
#pragma once

#include <lockstep/comm/hierarchy/engines.h>
#include <lockstep/comm/hierarchy/plan.h>

namespace lockstep::detail::hierarchy {

Plan all_reduce(const Engines& engines, at::Tensor tensor, ReduceOp op, const Call& call);
Plan reduce(const Engines& engines, at::Tensor tensor, int root, ReduceOp op, const Call& call);
Plan reduce_scatter(const Engines& engines, at::Tensor output, at::Tensor input, ReduceOp op, const Call& call);

Plan broadcast(const Engines& engines, at::Tensor tensor, int root, const Call& call);
Plan all_gather(const Engines& engines, at::Tensor output, at::Tensor input, const Call& call);
Plan barrier(const Engines& engines, const Call& call);

/// `output` and `input` are undefined where Backend's pointer is null.
Plan gather(const Engines& engines, at::Tensor output, at::Tensor input, int root, const Call& call);
Plan scatter(const Engines& engines, at::Tensor output, at::Tensor input, int root, const Call& call);
Plan all_to_all(const Engines& engines, at::Tensor output, at::Tensor input, const Call& call);
Plan send(const Engines& engines, at::Tensor tensor, int destination, int tag, const Call& call);
Plan receive(const Engines& engines, at::Tensor tensor, int source, int tag, const Call& call);

}  // namespace lockstep::detail::hierarchy
