// The rules of matrix products: rows or columns of the result, or the contracted dimension (a partial sum) are sharded.
// Products with any number of leading dimensions need not be merged first: a batch stays sharded, evenly or not,
// together with sharded attention heads.
#include <lockstep/global/rules/signature.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace lockstep::global {
namespace {

/// The operands of [.., m, k] x [.., k, n] with `batch` equal leading dimensions.
struct Operands {
  std::size_t left = 0;
  std::size_t right = 1;
  std::int64_t batch = 0;
};

void add(std::vector<Signature>& signatures, const OpCall& call, const Operands& operands, const Placement& left,
         const Placement& right, const Placement& output) {
  Signature signature = replicated(call);
  signature.inputs[operands.left] = left;
  signature.inputs[operands.right] = right;
  signature.outputs[0] = output;
  signatures.push_back(std::move(signature));
}

std::vector<Signature> products(const OpCall& call, const Operands& operands) {
  std::vector<Signature> signatures;
  const auto& left = call.tensors[operands.left].sizes;
  const auto& right = call.tensors[operands.right].sizes;
  const std::int64_t row = operands.batch;
  const std::int64_t column = operands.batch + 1;
  for (std::int64_t dim = 0; dim < operands.batch; ++dim) {
    if (left[static_cast<std::size_t>(dim)] > 1) add(signatures, call, operands, Shard(dim), Shard(dim), Shard(dim));
  }
  if (left[static_cast<std::size_t>(row)] > 1) add(signatures, call, operands, Shard(row), Replicate(), Shard(row));
  if (right[static_cast<std::size_t>(column)] > 1)
    add(signatures, call, operands, Replicate(), Shard(column), Shard(column));
  if (left[static_cast<std::size_t>(column)] > 1) {
    add(signatures, call, operands, Shard(column), Shard(row), Partial());
  }
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean}) {
    add(signatures, call, operands, Partial(op), Replicate(), Partial(op));
    add(signatures, call, operands, Replicate(), Partial(op), Partial(op));
  }
  return signatures;
}

std::vector<Signature> mm(const OpCall& call) {
  return products(call, {.left = call.tensor("self"), .right = call.tensor("mat2")});
}

std::vector<Signature> bmm(const OpCall& call) {
  return products(call, {.left = call.tensor("self"), .right = call.tensor("mat2"), .batch = 1});
}

/// beta * self + alpha * (a x b). If the product is a partial sum, the local form adds `self` on the first rank only,
/// so `self` is replicated.
std::vector<Signature> sums_of_product(const OpCall& call, const Operands& operands) {
  auto signatures = products(call, operands);
  const std::size_t self = call.tensor("self");
  for (auto& signature : signatures) {
    const auto& output = signature.outputs[0];
    if (output.is_shard()) signature.inputs[self] = shard_like_output(call.tensors[self], call.outputs[0], output.dim);
  }
  std::erase_if(signatures, [](const Signature& each) { return each.outputs[0].is_partial(ReduceOp::mean); });
  return signatures;
}

std::vector<Signature> addmm(const OpCall& call) {
  return sums_of_product(call, {.left = call.tensor("mat1"), .right = call.tensor("mat2")});
}

std::vector<Signature> baddbmm(const OpCall& call) {
  return sums_of_product(call, {.left = call.tensor("batch1"), .right = call.tensor("batch2"), .batch = 1});
}

/// [m, k] x [k].
std::vector<Signature> products_with_vector(const OpCall& call, std::size_t matrix, std::size_t vector) {
  std::vector<Signature> signatures;
  const Operands operands{.left = matrix, .right = vector};
  const auto& sizes = call.tensors[matrix].sizes;
  if (sizes[0] > 1) add(signatures, call, operands, Shard(0), Replicate(), Shard(0));
  if (sizes[1] > 1) add(signatures, call, operands, Shard(1), Shard(0), Partial());
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean}) {
    add(signatures, call, operands, Partial(op), Replicate(), Partial(op));
    add(signatures, call, operands, Replicate(), Partial(op), Partial(op));
  }
  return signatures;
}

std::vector<Signature> mv(const OpCall& call) {
  return products_with_vector(call, call.tensor("self"), call.tensor("vec"));
}

/// beta * self + alpha * (mat x vec); see sums_of_product.
std::vector<Signature> addmv(const OpCall& call) {
  auto signatures = products_with_vector(call, call.tensor("mat"), call.tensor("vec"));
  const std::size_t self = call.tensor("self");
  for (auto& signature : signatures) {
    if (signature.outputs[0].is_shard())
      signature.inputs[self] = shard_like_output(call.tensors[self], call.outputs[0], 0);
  }
  std::erase_if(signatures, [](const Signature& each) { return each.outputs[0].is_partial(ReduceOp::mean); });
  return signatures;
}

std::vector<Signature> dot(const OpCall& call) {
  std::vector<Signature> signatures;
  const Operands operands;
  if (call.tensors[0].elements() > 1) add(signatures, call, operands, Shard(0), Shard(0), Partial());
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean}) {
    add(signatures, call, operands, Partial(op), Replicate(), Partial(op));
    add(signatures, call, operands, Replicate(), Partial(op), Partial(op));
  }
  return signatures;
}

/// beta * self + alpha * (vec1 x vec2). libtorch's meta kernel also accepts a larger `self`.
std::vector<Signature> addr(const OpCall& call) {
  const std::size_t self = call.tensor("self");
  const std::array operands{call.tensor("vec1"), call.tensor("vec2")};
  const auto& output = call.outputs[0];
  const Sizes sizes{call.tensors[operands[0]].elements(), call.tensors[operands[1]].elements()};
  if (output.sizes != sizes) throw std::out_of_range("an addend of another shape");
  std::vector<Signature> signatures;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (sizes[i] < 2) continue;
    const auto dim = static_cast<std::int64_t>(i);
    Signature signature = replicated(call);
    signature.inputs[self] = shard_like_output(call.tensors[self], output, dim);
    signature.inputs[operands[i]] = Shard(0);
    signature.outputs[0] = Shard(dim);
    signatures.push_back(std::move(signature));
  }
  return signatures;
}

std::vector<Sizes> a_number(const OpCall&) { return {Sizes{}}; }

constexpr std::string_view kProducts = "batch, rows, columns, the common dimension (partial sum)";

constexpr std::array kMatmulRules = std::to_array<Rule>({
    {.op = "mm", .signatures = mm, .supports = kProducts},
    {.op = "bmm", .signatures = bmm, .supports = kProducts},
    {.op = "addmm", .signatures = addmm, .supports = kProducts},
    {.op = "baddbmm", .signatures = baddbmm, .supports = kProducts},
    {.op = "mv", .signatures = mv, .supports = "rows, the common dimension (partial sum)"},
    {.op = "addmv", .signatures = addmv, .supports = "rows, the common dimension (partial sum)"},
    {.op = "addr", .signatures = addr, .supports = "rows, columns"},
    {.op = "dot", .signatures = dot, .shapes = a_number, .supports = "the common dimension (partial sum)"},
    {.op = "vdot", .signatures = dot, .shapes = a_number, .supports = "the common dimension (partial sum)"},
});

}  // namespace

std::span<const Rule> matmul_rules() { return kMatmulRules; }

namespace {

/// Products are linear in each operand, so operands may be partial. A partial operand is reduced first if the result is
/// larger.
void keep_partial_operands(std::vector<Signature>& signatures, const OpCall& call) {
  for (const std::string_view operand : {"self", "other"}) {
    if (call.outputs[0].elements() > call.info(operand).elements()) continue;
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean}) {
      signatures.push_back(placing(call, {{operand, Partial(op)}}, {Partial(op)}));
    }
  }
}

/// [.., m, k] x [.., k, n], leading dimensions broadcast.
std::vector<Signature> matmul(const OpCall& call) {
  std::vector<Signature> signatures;
  const auto& left = call.info("self");
  const auto& right = call.info("other");
  const auto& output = call.outputs[0];
  if (left.dim() < 2 || right.dim() < 2) return signatures;
  const auto row = output.dim() - 2;
  const auto column = output.dim() - 1;
  for (std::int64_t dim = 0; dim < row; ++dim) {
    if (output.sizes[static_cast<std::size_t>(dim)] < 2) continue;
    signatures.push_back(placing(
        call, {{"self", shard_like_output(left, output, dim)}, {"other", shard_like_output(right, output, dim)}},
        {Shard(dim)}));
  }
  if (output.sizes[static_cast<std::size_t>(row)] > 1) {
    signatures.push_back(placing(call, {{"self", Shard(left.dim() - 2)}}, {Shard(row)}));
  }
  if (output.sizes[static_cast<std::size_t>(column)] > 1) {
    signatures.push_back(placing(call, {{"other", Shard(right.dim() - 1)}}, {Shard(column)}));
  }
  signatures.push_back(
      placing(call, {{"self", Shard(left.dim() - 1)}, {"other", Shard(right.dim() - 2)}}, {Partial()}));
  keep_partial_operands(signatures, call);
  return signatures;
}

std::vector<bool> contracted(const Sizes& dims, std::int64_t of) {
  std::vector<bool> found(static_cast<std::size_t>(of));
  for (const auto dim : dims) found[static_cast<std::size_t>(wrapped_dim(dim, of))] = true;
  return found;
}

/// The result has the dimensions of both operands that are not contracted, in order.
std::vector<Signature> tensordot(const OpCall& call) {
  std::vector<Signature> signatures;
  std::int64_t output_dim = 0;
  const auto keep_free_dims = [&](std::string_view operand, std::string_view dims) {
    const auto& info = call.info(operand);
    const auto summed = contracted(call.integers(dims), info.dim());
    for (std::int64_t dim = 0; dim < info.dim(); ++dim) {
      if (summed[static_cast<std::size_t>(dim)]) continue;
      if (info.sizes[static_cast<std::size_t>(dim)] > 1) {
        signatures.push_back(placing(call, {{operand, Shard(dim)}}, {Shard(output_dim)}));
      }
      ++output_dim;
    }
  };
  keep_free_dims("self", "dims_self");
  keep_free_dims("other", "dims_other");
  const auto left = call.integers("dims_self");
  const auto right = call.integers("dims_other");
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    const auto of_left = wrapped_dim(left[i], call.info("self").dim());
    const auto of_right = wrapped_dim(right[i], call.info("other").dim());
    if (call.info("self").sizes[static_cast<std::size_t>(of_left)] < 2) continue;
    signatures.push_back(placing(call, {{"self", Shard(of_left)}, {"other", Shard(of_right)}}, {Partial()}));
  }
  keep_partial_operands(signatures, call);
  return signatures;
}

constexpr std::array kBatchedProductRules = std::to_array<Rule>({
    {.op = "matmul",
     .signatures = matmul,
     .supports = "leading dimensions, rows, columns, the common dimension (partial sum)"},
    {.op = "tensordot",
     .signatures = tensordot,
     .supports = "dimensions that remain, dimensions that are summed over (partial sum)"},
});

}  // namespace

std::span<const Rule> batched_product_rules() { return kBatchedProductRules; }

}  // namespace lockstep::global
