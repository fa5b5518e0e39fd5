// From operators of torch.distributed to those of Lockstep, and what is left made of other collectives.
#include <apps/python/reductions.h>

#include <apps/python/flat.h>

#include <lockstep/comm/collectives.h>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <optional>

namespace lockstep::python {
namespace {

using Torch = c10d::ReduceOp::RedOpType;

Torch kind_of(const c10d::ReduceOp& op) { return op.op_; }

bool is_bitwise(const c10d::ReduceOp& op) {
  return kind_of(op) == Torch::BAND || kind_of(op) == Torch::BOR || kind_of(op) == Torch::BXOR;
}

lockstep::ReduceOp own_operator(const c10d::ReduceOp& op) {
  switch (kind_of(op)) {
    case Torch::SUM:
    case Torch::PREMUL_SUM: return lockstep::ReduceOp::sum;
    case Torch::AVG: return lockstep::ReduceOp::mean;
    case Torch::PRODUCT: return lockstep::ReduceOp::product;
    case Torch::MIN: return lockstep::ReduceOp::min;
    case Torch::MAX: return lockstep::ReduceOp::max;
    default: break;
  }
  TORCH_CHECK_VALUE(false, "lockstep: there is no reduction operator ", name_of(op));
}

void multiply_before(at::Tensor& tensor, const c10d::ReduceOp& op) {
  if (kind_of(op) != Torch::PREMUL_SUM) return;
  const auto* factor = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK_VALUE(factor != nullptr, "lockstep: PREMUL_SUM has no factor; make it with _make_nccl_premul_sum");
  if (factor->tensor_factor.defined()) {
    tensor.mul_(factor->tensor_factor.to(tensor.device()));
  } else {
    tensor.mul_(factor->double_factor);
  }
}

void combine(at::Tensor& sum, const at::Tensor& other, const c10d::ReduceOp& op) {
  switch (kind_of(op)) {
    case Torch::BAND: sum.bitwise_and_(other); return;
    case Torch::BOR: sum.bitwise_or_(other); return;
    default: sum.bitwise_xor_(other);
  }
}

/// The bitwise reduction of all ranks' tensors, flat.
at::Tensor gathered_and_combined(const at::Tensor& tensor, const c10d::ReduceOp& op, const Group& group, Limit limit) {
  const auto own = flat(tensor);
  auto all = at::empty({group.size(), own.numel()}, own.options());
  all_gather_async(all, own, group).wait(limit);
  auto result = all[0].clone();
  for (int rank = 1; rank < group.size(); ++rank) combine(result, all[rank], op);
  return result;
}

/// The tensors of all ranks, which may have another number of columns in dimension 0 each.
std::vector<at::Tensor> gathered_rows(const at::Tensor& own, const std::vector<std::int64_t>& rows, const Group& group,
                                      Limit limit) {
  std::vector<at::Tensor> all;
  for (int rank = 0; rank < group.size(); ++rank) {
    auto shape = own.sizes().vec();
    shape[0] = rows[static_cast<std::size_t>(rank)];
    auto tensor = rank == group.rank() ? own.contiguous() : at::empty(shape, own.options());
    broadcast_async(tensor, group, rank).wait(limit);
    all.push_back(std::move(tensor));
  }
  return all;
}

}  // namespace

void sum_sparse_on_all(at::Tensor& tensor, const Group& group, Limit limit) {
  const auto own = tensor.coalesce();
  auto counts = at::empty({group.size()}, at::kLong);
  all_gather_async(counts, at::full({1}, own._nnz(), at::kLong), group).wait(limit);
  const std::vector<std::int64_t> rows(counts.data_ptr<std::int64_t>(), counts.data_ptr<std::int64_t>() + group.size());
  const auto indices = gathered_rows(own.indices().t(), rows, group, limit);
  const auto values = gathered_rows(own.values(), rows, group, limit);
  const auto all = at::sparse_coo_tensor(at::cat(indices).t(), at::cat(values), tensor.sizes(), tensor.options());
  tensor.copy_(all.coalesce());
}

std::string name_of(const c10d::ReduceOp& op) {
  switch (kind_of(op)) {
    case Torch::SUM: return "SUM";
    case Torch::AVG: return "AVG";
    case Torch::PRODUCT: return "PRODUCT";
    case Torch::MIN: return "MIN";
    case Torch::MAX: return "MAX";
    case Torch::BAND: return "BAND";
    case Torch::BOR: return "BOR";
    case Torch::BXOR: return "BXOR";
    case Torch::PREMUL_SUM: return "PREMUL_SUM";
    case Torch::UNUSED: break;
  }
  return "number " + std::to_string(static_cast<int>(kind_of(op)));
}

void require_reducible(const at::Tensor& tensor, const c10d::ReduceOp& op, std::string_view call) {
  const auto dtype = tensor.scalar_type();
  const bool integers = at::isIntegralType(dtype, /*includeBool=*/true);
  const bool small = dtype == at::kUInt16 || dtype == at::kUInt32 || dtype == at::kUInt64 || at::isFloat8Type(dtype);
  const bool computes = (integers || at::isFloatingType(dtype) || at::isComplexType(dtype)) && !small;
  TORCH_CHECK_VALUE(computes, "lockstep: ", call, " cannot reduce tensors of dtype ", dtype,
                    "; floating numbers, int8 to int64, uint8 and bool can be reduced");
  TORCH_CHECK_VALUE(!is_bitwise(op) || integers, "lockstep: ", call, " with ", name_of(op),
                    " is for integers and bool, not for ", dtype);
  const bool fractions = kind_of(op) == Torch::AVG || kind_of(op) == Torch::PREMUL_SUM;
  TORCH_CHECK_VALUE(!fractions || !integers, "lockstep: ", call, " with ", name_of(op), " is not defined for ", dtype,
                    "; use SUM, or convert to float32");
  if (!is_bitwise(op)) own_operator(op);
}

void reduce_on_all(at::Tensor& tensor, const c10d::ReduceOp& op, const Group& group, Limit limit) {
  if (is_bitwise(op)) return store_slices(gathered_and_combined(tensor, op, group, limit), {tensor});
  multiply_before(tensor, op);
  if (limit) {
    all_reduce_async(tensor, group, own_operator(op)).wait(limit);
  } else {
    all_reduce(tensor, group, own_operator(op));  // faster, as it makes no Work
  }
}

void reduce_on_root(at::Tensor& tensor, const c10d::ReduceOp& op, int root, const Group& group, Limit limit) {
  if (is_bitwise(op)) {
    const auto result = gathered_and_combined(tensor, op, group, limit);
    if (group.rank() == root) store_slices(result, {tensor});
    return;
  }
  auto scaled = tensor;
  if (kind_of(op) == Torch::PREMUL_SUM) {
    if (group.rank() != root) scaled = tensor.clone();
    multiply_before(scaled, op);
  }
  reduce_async(scaled, group, root, own_operator(op)).wait(limit);
}

void reduce_slices(at::Tensor& output, const at::Tensor& input, const c10d::ReduceOp& op, const Group& group,
                   Limit limit) {
  if (is_bitwise(op)) {
    const auto all = gathered_and_combined(input, op, group, limit);
    output.copy_(all.narrow(0, group.rank() * output.numel(), output.numel()));
    return;
  }
  auto scaled = input;
  if (kind_of(op) == Torch::PREMUL_SUM) {
    scaled = input.clone();
    multiply_before(scaled, op);
  }
  reduce_scatter_async(output, scaled, group, own_operator(op)).wait(limit);
}

}  // namespace lockstep::python
