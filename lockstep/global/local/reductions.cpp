// Local forms of reductions: sums to which one rank adds, the mean, and norms and variances over sharded dimensions;
// and of operators whose result depends on how many elements each rank selects, and of the comparison of whole tensors.
#include <lockstep/base/error.h>
#include <lockstep/global/local/local_call.h>

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

namespace lockstep::global {

void form_of_mean(LocalCall& call) {
  const auto& whole = call.plan.call.tensors[0];
  const auto& result = call.plan.outputs[0].shape;
  std::int64_t results = 1;
  for (const auto size : result.sizes) results *= size;
  const at::Tensor self = call.stack[0].toTensor();
  const auto dims = call.plan.call.integers("dim");
  const auto sum = dims.empty() && !call.plan.call.flag("keepdim")
                       ? at::sum(self, result.dtype)
                       : at::sum(self, at::OptionalIntArrayRef(dims), call.plan.call.flag("keepdim"), result.dtype);
  call.give(sum.div(static_cast<double>(whole.elements()) / static_cast<double>(results)));
}

void form_of_sum_of_product(LocalCall& call) {
  // With beta = 0, `self` is not read.
  if (!adds_once(call, call.output())) call.argument("beta") = at::Scalar(0);
  run_operator(call);
}

void form_of_sum_of_batched_product(LocalCall& call) {
  if (!adds_once(call, call.output())) {
    // Not beta = 0: libtorch 1.13 then multiplies uninitialized memory by 0, which may give NaN.
    const auto self = call.argument("self").toTensor();
    call.argument("self") = at::zeros({}, self.options()).expand_as(self);
  }
  run_operator(call);
}

namespace {

double order_of(const LocalCall& call) {
  const auto& given = call.argument(call.plan.call.name == "norm" ? "p" : "ord");
  return given.isNone() ? 2.0 : given.toScalar().toDouble();
}

/// The norm of an empty part: the neutral element of the combination of norms.
double empty_norm(double order) { return order < 0 ? std::numeric_limits<double>::infinity() : 0; }

}  // namespace

/// The norm of each rank's part, and one all_reduce of it.
void form_of_norm(LocalCall& call) {
  const auto axes = axes_to_join(call);
  if (axes.empty()) return run_operator(call);
  const double order = order_of(call);
  const auto dims = dims_or_all(call);
  const auto part = call.stack[0].toTensor();
  const auto dtype = call.plan.outputs[0].shape.dtype;
  const auto self = part.to(part.is_complex() ? c10::toComplexType(dtype) : dtype);
  auto norm = self.numel() == 0 ? at::full(call.local_output_sizes(), empty_norm(order),
                                           self.options().dtype(c10::toRealValueType(dtype)))
                                : at::linalg_vector_norm(self, order, dims, call.plan.call.flag("keepdim"));
  auto joined = norm.to(at::kDouble);
  const bool adds = !std::isinf(order);
  if (adds && order != 0) joined = joined.pow(order);
  const auto op = adds ? ReduceOp::sum : order > 0 ? ReduceOp::max : ReduceOp::min;
  reduce_over(call, axes, joined, op);
  if (adds && order != 0) joined = joined.pow(1 / order);
  call.give(joined.to(norm.scalar_type()));
}

namespace {

double rows_reduced(const LocalCall& call) {
  const auto& whole = call.plan.call.tensors[0];
  double rows = 1;
  for (const auto dim : dims_or_all(call)) rows *= static_cast<double>(whole.sizes[static_cast<std::size_t>(dim)]);
  return rows;
}

at::Tensor joined_sum(const LocalCall& call, const at::Tensor& values, const Axes& axes) {
  auto sum = values.sum(dims_or_all(call), /*keepdim=*/true);
  reduce_over(call, axes, sum);
  return sum;
}

at::Tensor in_result_shape(const LocalCall& call, const at::Tensor& value, at::ScalarType dtype) {
  return value.reshape(call.local_output_sizes()).to(dtype);
}

/// The dtype in which values of `dtype` are accumulated.
at::ScalarType wide(at::ScalarType dtype) {
  return dtype == at::kDouble || at::isComplexType(dtype) ? dtype : at::kFloat;
}

}  // namespace

/// The global mean, then the squared deviations from it: two small all_reduces.
void form_of_variance(LocalCall& call) {
  const auto axes = axes_to_join(call);
  if (axes.empty()) return run_operator(call);
  const auto part = call.stack[0].toTensor();
  const auto dtype = part.scalar_type();
  const auto self = part.to(wide(dtype));
  const double rows = rows_reduced(call);
  const auto mean = joined_sum(call, self, axes).div(rows);
  const auto squares = joined_sum(call, self.sub(mean).abs().square(), axes);
  const auto& correction = call.argument("correction");
  auto spread = squares.div(std::max(0.0, rows - (correction.isNone() ? 1.0 : correction.toScalar().toDouble())));
  const auto& name = call.plan.call.name;
  if (name.starts_with("std")) spread = spread.sqrt();
  call.give(in_result_shape(call, spread, c10::toRealValueType(dtype)));
  if (name.ends_with("_mean")) call.stack.emplace_back(in_result_shape(call, mean, dtype));
}

namespace {

/// The axes along which the ranks' parts of `tensor` (of OpCall::tensors) follow each other in dimension 0, the
/// outermost first.
Axes axes_of_rows(const LocalCall& call, std::size_t tensor) { return axes_that_divide(call, call.input(tensor), 0); }

struct Counted {
  std::int64_t before = 0;  ///< on the ranks with rows before those of this rank
  std::int64_t all = 0;
};

Counted count(const LocalCall& call, const Axes& axes, std::int64_t mine) {
  std::int64_t before = 0;
  std::int64_t together = mine;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    const auto of_ranks =
        gather_along(call, *axis, at::full({1}, together, at::device(call.mesh.device()).dtype(at::kLong)))
            .reshape(-1)
            .cpu();
    before += of_ranks.narrow(0, 0, call.mesh.coordinate()[*axis]).sum().item<std::int64_t>();
    together = of_ranks.sum().item<std::int64_t>();
  }
  return {.before = before, .all = together};
}

/// The concatenated rows of the ranks along an axis; ranks may have different numbers of rows.
at::Tensor joined_along(const LocalCall& call, std::size_t axis, const at::Tensor& own) {
  const auto lengths =
      gather_along(call, axis, at::full({1}, own.size(0), at::device(call.mesh.device()).dtype(at::kLong)))
          .reshape(-1)
          .cpu();
  const auto longest = lengths.max().item<std::int64_t>();
  auto sizes = own.sizes().vec();
  sizes[0] = longest - own.size(0);
  const auto all = gather_along(call, axis, at::cat({own, at::zeros(sizes, own.options())}));
  std::vector<at::Tensor> pieces;
  for (std::int64_t rank = 0; rank < lengths.numel(); ++rank) {
    pieces.push_back(all.select(0, rank).narrow(0, 0, lengths[rank].item<std::int64_t>()));
  }
  return at::cat(pieces);
}

}  // namespace

/// Compares the parts, and then reduces one number.
void form_of_equal(LocalCall& call) {
  run_operator(call);
  const auto& self = call.plan.call.tensors[0];
  if (self.sizes != call.plan.call.tensors[1].sizes) {  // parts of different tensors may be equal
    call.stack = {false};
    return;
  }
  Axes axes;
  for (std::size_t axis = 0; axis < call.mesh.sizes().size(); ++axis) {
    if (call.input(0)[axis].is_shard() && call.mesh.sizes()[axis] > 1) axes.push_back(axis);
  }
  if (axes.empty()) return;
  auto equal = at::full({1}, call.stack[0].toBool() ? 1 : 0, at::device(call.mesh.device()).dtype(at::kInt));
  reduce_over(call, axes, equal, ReduceOp::min);
  call.stack = {equal.item<int>() != 0};
}

namespace {

/// Only selected elements are sent.
void select_and_join(LocalCall& call, const Axes& axes) {
  run_operator(call);
  auto selected = call.stack[0].toTensor();
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) selected = joined_along(call, *axis, selected);
  call.give(std::move(selected));
}

bool by_mask(const LocalCall& call) {
  const auto indices = call.plan.call.tensor_list("indices");
  return indices.count == 1 && call.plan.call.tensors[indices.first].truth;
}

}  // namespace

void form_of_masked_select(LocalCall& call) {
  const auto axes = axes_of_rows(call, 0);
  select_and_join(call, axes.empty() ? axes_of_rows(call, 1) : axes);  // of the mask only, if self is broadcast
}

void form_of_index(LocalCall& call) {
  if (!by_mask(call)) return run_operator(call);
  select_and_join(call, axes_of_rows(call, call.plan.call.tensor_list("indices").first));
}

/// Unless one value is for all positions, the values have a row for each position that any rank selects.
void form_of_index_put(LocalCall& call) {
  if (!by_mask(call)) return run_operator(call);
  const auto at = call.plan.call.tensor_list("indices").first;
  const auto axes = axes_of_rows(call, at);
  auto& values = call.argument("values");
  const auto given = values.toTensor();
  const auto& whole = call.plan.call;
  const bool has_rows = given.dim() == whole.tensors[0].dim() - whole.tensors[at].dim() + 1 && given.size(0) != 1;
  if (!axes.empty() && has_rows) {
    const auto mask = call.argument("indices").toListRef()[0].toTensor();
    const auto mine = mask.count_nonzero().item<std::int64_t>();
    const auto places = count(call, axes, mine);
    if (given.size(0) != places.all) {
      fail(ErrorKind::invalid_argument, "global view",
           "{}: the mask selects {} places, and there are values for {}; one for each is needed, or one for all",
           call.op.schema().name(), places.all, given.size(0));
    }
    values = given.narrow(0, places.before, mine);
  }
  run_operator(call);
}

/// Only the number of selected elements is sent.
void form_of_masked_scatter(LocalCall& call) {
  const auto axes = axes_of_rows(call, 0);
  if (!axes.empty()) {
    const auto self = call.stack[0].toTensor();
    auto& source = call.argument("source");
    const auto mask = call.argument("mask").toTensor().expand(self.sizes());
    const auto before = count(call, axes, mask.count_nonzero().item<std::int64_t>()).before;
    const auto all = source.toTensor().reshape(-1);
    source = all.slice(0, std::min(before, all.numel()));
  }
  run_operator(call);
}

}  // namespace lockstep::global
