// The collectives of the backend: the checks of each, and what it executes.
#include <apps/python/arguments.h>
#include <apps/python/flat.h>
#include <apps/python/moves.h>
#include <apps/python/process_group.h>
#include <apps/python/reductions.h>

#include <lockstep/comm/collectives.h>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <string>
#include <utility>

namespace lockstep::python {
namespace {

using c10d::OpType;
using Lists = LockstepBackend::Lists;
using TensorList = LockstepBackend::TensorList;

TensorList all_of(const Lists& lists) {
  TensorList all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

void require_all_reducible(const TensorList& tensors, const c10d::ReduceOp& op, std::string_view call) {
  require_alike(tensors, {}, call);
  for (const auto& tensor : tensors) require_reducible(tensor, op, call);
}

void require_elements(const at::Tensor& large, const at::Tensor& small, int size, std::string_view call) {
  TORCH_CHECK_VALUE(large.numel() == small.numel() * size, "lockstep: ", call, " needs ",
                    size == 1 ? "" : std::to_string(size) + " times ",
                    "as many elements on one side as on the other, and got ", large.sizes(), " and ", small.sizes());
}

}  // namespace

LockstepBackend::WorkPtr LockstepBackend::broadcast(TensorList& tensors, const c10d::BroadcastOptions& options) {
  require_alike({only(tensors, "broadcast")}, {}, "broadcast");
  require_rank(options.rootRank, size_, "broadcast");
  return run({OpType::BROADCAST, "lockstep:broadcast", {{}, tensors}, options.timeout, options.asyncOp},
             [root = static_cast<int>(options.rootRank)](const Group& group, CallTensors& all, Limit limit) {
               broadcast_from(root, all, group, limit);
             });
}

LockstepBackend::WorkPtr LockstepBackend::allreduce(TensorList& tensors, const c10d::AllreduceOptions& options) {
  if (only(tensors, "all_reduce").layout() == at::kSparse) return allreduce_sparse(tensors, options);
  require_all_reducible(tensors, options.reduceOp, "all_reduce");
  return run({OpType::ALLREDUCE, "lockstep:all_reduce", {{}, tensors}, options.timeout, options.asyncOp},
             [op = options.reduceOp](const Group& group, CallTensors& all, Limit limit) {
               reduce_on_all(all.outputs.front(), op, group, limit);
             });
}

LockstepBackend::WorkPtr LockstepBackend::allreduce_sparse(TensorList& tensors, const c10d::AllreduceOptions& options) {
  const auto& tensor = only(tensors, "all_reduce");
  TORCH_CHECK_VALUE(tensor.layout() == at::kSparse && options.reduceOp.op_ == c10d::ReduceOp::SUM,
                    "lockstep: all_reduce of sparse tensors has SUM alone, for layout torch.sparse_coo, and got ",
                    name_of(options.reduceOp), " and ", tensor.layout());
  require_reducible(tensor, options.reduceOp, "all_reduce");
  return run(
      {OpType::_ALLREDUCE_SPARSE, "lockstep:sparse_all_reduce", {{}, tensors}, options.timeout, options.asyncOp},
      [](const Group& group, CallTensors& all, Limit limit) { sum_sparse_on_all(all.outputs.front(), group, limit); });
}

LockstepBackend::WorkPtr LockstepBackend::allreduce_coalesced(TensorList& tensors,
                                                              const c10d::AllreduceCoalescedOptions& options) {
  for (const auto& tensor : tensors) require_all_reducible({tensor}, options.reduceOp, "all_reduce_coalesced");
  return run({OpType::ALLREDUCE_COALESCED, "lockstep:all_reduce", {{}, tensors}, options.timeout, options.asyncOp},
             [op = options.reduceOp](const Group& group, CallTensors& all, Limit limit) {
               for (auto& tensor : all.outputs) reduce_on_all(tensor, op, group, limit);
             });
}

LockstepBackend::WorkPtr LockstepBackend::reduce(TensorList& tensors, const c10d::ReduceOptions& options) {
  require_all_reducible({only(tensors, "reduce")}, options.reduceOp, "reduce");
  require_rank(options.rootRank, size_, "reduce");
  return run({OpType::REDUCE, "lockstep:reduce", {{}, tensors}, options.timeout, options.asyncOp},
             [op = options.reduceOp, root = static_cast<int>(options.rootRank)](const Group& group, CallTensors& all,
                                                                                Limit limit) {
               reduce_on_root(all.outputs.front(), op, root, group, limit);
             });
}

LockstepBackend::WorkPtr LockstepBackend::allgather(Lists& outputs, TensorList& inputs,
                                                    const c10d::AllgatherOptions& options) {
  const auto& list = only(outputs, "all_gather");
  const auto& own = only(inputs, "all_gather");
  require_one_for_each_rank(list, size_, "all_gather");
  require_alike(list, inputs, "all_gather");
  require_elements(own, list[static_cast<std::size_t>(rank_)], 1, "all_gather");
  return run({OpType::ALLGATHER, "lockstep:all_gather", {inputs, list}, options.timeout, options.asyncOp},
             [](const Group& group, CallTensors& all, Limit limit) { gather_on_all(all, group, limit); });
}

LockstepBackend::WorkPtr LockstepBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                          const c10d::AllgatherOptions& options) {
  require_alike({output}, {input}, "all_gather_into_tensor");
  require_elements(output, input, size_, "all_gather_into_tensor");
  return run(
      {OpType::_ALLGATHER_BASE, "lockstep:_all_gather_base", {{input}, {output}}, options.timeout, options.asyncOp},
      [](const Group& group, CallTensors& all, Limit limit) {
        gather_into(all.outputs.front(), all.inputs.front(), group, limit);
      });
}

LockstepBackend::WorkPtr LockstepBackend::allgather_coalesced(Lists& outputs, TensorList& inputs,
                                                              const c10d::AllgatherOptions& options) {
  require_one_for_each_rank(std::vector<at::Tensor>(outputs.size()), size_, "all_gather_coalesced");
  for (const auto& list : outputs) require_pairs(list, inputs, "all_gather_coalesced");
  return run(
      {OpType::ALLGATHER_COALESCED, "lockstep:all_gather", {inputs, all_of(outputs)}, options.timeout, options.asyncOp},
      [](const Group& group, CallTensors& all, Limit limit) {
        for (std::size_t i = 0; i < all.inputs.size(); ++i) {
          CallTensors one{{all.inputs[i]}, {}};
          for (std::size_t at = i; at < all.outputs.size(); at += all.inputs.size()) {
            one.outputs.push_back(all.outputs[at]);
          }
          gather_on_all(one, group, limit);
        }
      });
}

LockstepBackend::WorkPtr LockstepBackend::allgather_into_tensor_coalesced(TensorList& outputs, TensorList& inputs,
                                                                          const c10d::AllgatherOptions& options) {
  require_pairs(outputs, inputs, "all_gather_into_tensor_coalesced");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    require_alike({outputs[i]}, {inputs[i]}, "all_gather_into_tensor_coalesced");
    require_elements(outputs[i], inputs[i], size_, "all_gather_into_tensor_coalesced");
  }
  return run({OpType::COALESCED, "lockstep:_all_gather_base", {inputs, outputs}, options.timeout, options.asyncOp},
             [](const Group& group, CallTensors& all, Limit limit) {
               for (std::size_t i = 0; i < all.outputs.size(); ++i) {
                 gather_into(all.outputs[i], all.inputs[i], group, limit);
               }
             });
}

LockstepBackend::WorkPtr LockstepBackend::gather(Lists& outputs, TensorList& inputs,
                                                 const c10d::GatherOptions& options) {
  require_rank(options.rootRank, size_, "gather");
  const auto& own = only(inputs, "gather");
  TensorList list;
  if (options.rootRank == rank_) {
    list = only(outputs, "gather");
    require_one_for_each_rank(list, size_, "gather");
    for (const auto& one : list) require_elements(one, own, 1, "gather");
  } else {
    TORCH_CHECK_VALUE(outputs.empty(), "lockstep: gather takes outputs on the root alone, and this is rank ", rank_);
  }
  require_alike(list, inputs, "gather");
  return run({OpType::GATHER, "lockstep:gather", {inputs, list}, options.timeout, options.asyncOp},
             [root = static_cast<int>(options.rootRank)](const Group& group, CallTensors& all, Limit limit) {
               gather_on(root, all, group, limit);
             });
}

LockstepBackend::WorkPtr LockstepBackend::scatter(TensorList& outputs, Lists& inputs,
                                                  const c10d::ScatterOptions& options) {
  require_rank(options.rootRank, size_, "scatter");
  const auto& own = only(outputs, "scatter");
  TensorList list;
  if (options.rootRank == rank_) {
    list = only(inputs, "scatter");
    require_one_for_each_rank(list, size_, "scatter");
    for (const auto& one : list) require_elements(one, own, 1, "scatter");
  } else {
    TORCH_CHECK_VALUE(inputs.empty(), "lockstep: scatter takes inputs on the root alone, and this is rank ", rank_);
  }
  require_alike(outputs, list, "scatter");
  return run({OpType::SCATTER, "lockstep:scatter", {list, outputs}, options.timeout, options.asyncOp},
             [root = static_cast<int>(options.rootRank)](const Group& group, CallTensors& all, Limit limit) {
               scatter_from(root, all, group, limit);
             });
}

LockstepBackend::WorkPtr LockstepBackend::reduce_scatter(TensorList& outputs, Lists& inputs,
                                                         const c10d::ReduceScatterOptions& options) {
  const auto& own = only(outputs, "reduce_scatter");
  const auto& list = only(inputs, "reduce_scatter");
  require_one_for_each_rank(list, size_, "reduce_scatter");
  require_alike(outputs, list, "reduce_scatter");
  require_reducible(own, options.reduceOp, "reduce_scatter");
  require_elements(own, list[static_cast<std::size_t>(rank_)], 1, "reduce_scatter");
  return run({OpType::REDUCE_SCATTER, "lockstep:reduce_scatter", {list, outputs}, options.timeout, options.asyncOp},
             [op = options.reduceOp](const Group& group, CallTensors& all, Limit limit) {
               if (same_sizes(all.inputs)) {
                 FlatOutput output(all.outputs.front());
                 reduce_slices(output.memory(), joined(all.inputs), op, group, limit);
                 return output.store();
               }
               for (int rank = 0; rank < group.size(); ++rank) {
                 auto slice = flat(all.inputs[static_cast<std::size_t>(rank)]).clone();
                 reduce_on_root(slice, op, rank, group, limit);
                 if (rank == group.rank()) store_slices(slice, all.outputs);
               }
             });
}

LockstepBackend::WorkPtr LockstepBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                               const c10d::ReduceScatterOptions& options) {
  TensorList outputs{output};
  TensorList inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

LockstepBackend::WorkPtr LockstepBackend::reduce_scatter_tensor_coalesced(TensorList& outputs, TensorList& inputs,
                                                                          const c10d::ReduceScatterOptions& options) {
  require_pairs(outputs, inputs, "reduce_scatter_tensor");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    require_alike({outputs[i]}, {inputs[i]}, "reduce_scatter_tensor");
    require_reducible(outputs[i], options.reduceOp, "reduce_scatter_tensor");
    require_elements(inputs[i], outputs[i], size_, "reduce_scatter_tensor");
  }
  const auto type = outputs.size() == 1 ? OpType::_REDUCE_SCATTER_BASE : OpType::COALESCED;
  return run({type, "lockstep:_reduce_scatter_base", {inputs, outputs}, options.timeout, options.asyncOp},
             [op = options.reduceOp](const Group& group, CallTensors& all, Limit limit) {
               for (std::size_t i = 0; i < all.outputs.size(); ++i) {
                 FlatOutput output(all.outputs[i]);
                 reduce_slices(output.memory(), flat(all.inputs[i]), op, group, limit);
                 output.store();
               }
             });
}

LockstepBackend::WorkPtr LockstepBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                        std::vector<std::int64_t>& output_sizes,
                                                        std::vector<std::int64_t>& input_sizes,
                                                        const c10d::AllToAllOptions& options) {
  require_alike({output}, {input}, "all_to_all_single");
  c10d::checkSplitSizes(input_sizes, input, size_);
  c10d::checkSplitSizes(output_sizes, output, size_);
  return run({OpType::ALLTOALL_BASE, "lockstep:all_to_all", {{input}, {output}}, options.timeout, options.asyncOp},
             [output_sizes, input_sizes](const Group& group, CallTensors& all, Limit limit) {
               exchange_slices(all, output_sizes, input_sizes, group, limit);
             });
}

LockstepBackend::WorkPtr LockstepBackend::alltoall(TensorList& outputs, TensorList& inputs,
                                                   const c10d::AllToAllOptions& options) {
  require_one_for_each_rank(outputs, size_, "all_to_all");
  require_one_for_each_rank(inputs, size_, "all_to_all");
  require_alike(outputs, inputs, "all_to_all");
  return run({OpType::ALLTOALL, "lockstep:all_to_all", {inputs, outputs}, options.timeout, options.asyncOp},
             [](const Group& group, CallTensors& all, Limit limit) { exchange(all, group, limit); });
}

LockstepBackend::WorkPtr LockstepBackend::barrier(const c10d::BarrierOptions& options) {
  return run({OpType::BARRIER, "lockstep:barrier", {}, options.timeout, options.asyncOp},
             [](const Group& group, CallTensors&, Limit) { lockstep::barrier(group); });
}

LockstepBackend::WorkPtr LockstepBackend::send(TensorList& tensors, int destination, int tag) {
  return post(OpType::SEND, "lockstep:send", only(tensors, "send"), destination, tag);
}

LockstepBackend::WorkPtr LockstepBackend::recv(TensorList& tensors, int source, int tag) {
  return post(OpType::RECV, "lockstep:recv", only(tensors, "recv"), source, tag);
}

LockstepBackend::WorkPtr LockstepBackend::recvAnysource(TensorList& tensors, int tag) {
  return post(OpType::RECVANYSOURCE, "lockstep:recvAnySource", only(tensors, "recv"), std::nullopt, tag);
}

}  // namespace lockstep::python
