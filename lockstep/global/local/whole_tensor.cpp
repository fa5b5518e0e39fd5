// Local forms of operators whose arguments or results describe the whole tensor: its sizes, positions in it, its random
// numbers, its memory.
#include <lockstep/base/error.h>
#include <lockstep/global/local/local_call.h>
#include <lockstep/global/placement.h>
#include <lockstep/global/redistribute.h>
#include <lockstep/global/rules/signature.h>

#include <ATen/ATen.h>

#include <algorithm>

namespace lockstep::global {

void form_with_local_sizes(LocalCall& call) {
  if (call.plan.call.overload == "dtype") return run_operator(call);  // view(dtype)
  const auto sizes = call.local_output_sizes();
  const at::Tensor self = call.stack[0].toTensor();
  if (call.plan.call.name == "expand") {
    call.give(self.expand(sizes));
  } else {
    // A part may have another memory order than the full tensor, and must then be copied.
    call.give(self.reshape(sizes));
  }
}

void form_of_cut_backward(LocalCall& call) {
  call.argument("input_sizes") = c10::IValue(call.local_output_sizes());
  run_operator(call);
}

namespace {

/// Applies the cuts of the full tensor to a part: only dimensions that are not cut may be sharded.
at::Tensor cut_part(at::Tensor part, const std::vector<Cut>& cuts, const TensorInfo& whole, const TensorInfo& view) {
  std::vector<std::pair<std::int64_t, std::int64_t>> goals;  // dimension in the view, dimension among those that remain
  std::int64_t dim = 0;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const Cut& cut = cuts[i];
    if (!cut.to) {
      part = part.select(dim, cut.begin);
      continue;
    }
    if (cut.rows != whole.sizes[i])
      part = part.slice(dim, cut.begin, cut.begin + (cut.rows - 1) * cut.step + 1, cut.step);
    goals.emplace_back(*cut.to, dim++);
  }
  std::sort(goals.begin(), goals.end());
  std::vector<std::int64_t> order;
  for (const auto& goal : goals) order.push_back(goal.second);
  part = part.permute(order);
  for (std::int64_t to = 0; to < view.dim(); ++to) {
    if (std::none_of(goals.begin(), goals.end(), [&](const auto& goal) { return goal.first == to; }))
      part = part.unsqueeze(to);
  }
  return part;
}

/// `part` in the memory order that the full tensor has on one device.
at::Tensor laid_out_as(const at::Tensor& part, const TensorInfo& whole) {
  if (part.strides() == c10::IntArrayRef(whole.strides)) return part;
  return at::empty_strided(whole.sizes, whole.strides, part.options()).copy_(part);
}

}  // namespace

void form_of_strided_view(LocalCall& call) {
  const auto& whole = call.plan.call.tensors[0];
  const auto& view = call.plan.call.outputs[0];
  const at::Tensor part = call.stack[0].toTensor();
  if (const auto cuts = as_cuts(whole, view, view.offset - whole.offset)) {
    return call.give(cut_part(part, *cuts, whole, view));
  }
  const auto base = laid_out_as(part, whole);
  call.give(base.as_strided(view.sizes, view.strides, base.storage_offset() + view.offset - whole.offset));
}

void form_of_triangle(LocalCall& call) {
  const auto& placements = call.output();
  const auto& shape = call.plan.outputs[0].shape.sizes;
  const auto columns = static_cast<std::int64_t>(shape.size()) - 1;
  if (columns < 1) return run_operator(call);  // libtorch has an error for a vector
  const auto begin = [&](std::int64_t dim) {
    return part_of(shape[static_cast<std::size_t>(dim)], dim, placements, call.mesh.sizes(), call.mesh.coordinate())
        .begin;
  };
  auto& diagonal = call.argument("diagonal");
  diagonal = diagonal.toInt() + begin(columns - 1) - begin(columns);
  run_operator(call);
}

/// Every rank draws the full logical tensor from libtorch's generator and keeps its part, so that the values are those
/// of one device, for every mesh. The generators of the ranks stay equal as long as all ranks draw the same tensors.
void form_of_random(LocalCall& call) {
  if (!call.plan.call.in_place) return run_operator(call);  // everything is replicated
  const at::Tensor part = call.stack[0].toTensor();
  const auto& shape = call.plan.outputs[0].shape;
  // libtorch fills memory in order, so the strides must be the logical ones.
  call.stack[0] = at::empty_strided(shape.sizes, shape.strides, part.options());
  run_operator(call);
  part.copy_(part_of_full(call.stack[0].toTensor(), call.mesh, call.output()));
  call.give(part);
}

/// Always an error. torch::save(), for example, calls it.
void form_of_storage(LocalCall& call) {
  fail(ErrorKind::unsupported, "global view",
       "{} needs the memory of a global tensor, which has none of its own: every rank holds a part. To save one, save "
       "tensor.cpu(), which all ranks call together, or full(tensor)",
       call.op.schema().name());
}

}  // namespace lockstep::global
