// Local forms of operators whose result depends on how many elements each rank selects, and of the comparison of whole
// tensors.
#include <lockstep/base/error.h>
#include <lockstep/global/local/local_call.h>

#include <ATen/ATen.h>

namespace lockstep::global {
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
