// Reductions: summed up inside each host, so that one tensor a host crosses the network.
//
//              inside a host (up)         between hosts (across)            inside a host (down)
// all_reduce   all_reduce                 all_reduce of each column's slice each slice from its carrier
// reduce       reduce to the leader       reduce of the leaders to root's   root's leader sends to root
// reduce_sc.   reduce to the leader       reduce_scatter of the leaders     scatter by the leader
//
// What an engine would round in between (float16, bfloat16) is carried as float32 all the way; a mean is divided once,
// at the end.
#include <lockstep/base/error.h>
#include <lockstep/comm/carrier.h>
#include <lockstep/comm/hierarchy/plans.h>
#include <lockstep/comm/hierarchy/slices.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <utility>

namespace lockstep::detail::hierarchy {
namespace {

// Dtypes that all engines reduce, by themselves or by a carrier that loses nothing in between.
bool native(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
    case at::kDouble:
    case at::kByte:
    case at::kChar:
    case at::kShort:
    case at::kInt:
    case at::kLong: return true;
    default: return false;
  }
}

at::ScalarType carried_as(const at::Tensor& tensor) { return carrier_dtype(tensor.scalar_type(), native); }

// [size * rows] in rank order as [hosts * width * rows], a block for each host with its ranks' rows in their order, and
// zeros after them where the host has fewer ranks than the widest.
at::Tensor by_host(const Hosts& hosts, const at::Tensor& flat, std::int64_t rows) {
  if (hosts.in_order()) return flat;
  auto blocks = at::zeros({std::int64_t{hosts.count()} * hosts.width() * rows}, flat.options());
  for (int rank = 0; rank < hosts.size(); ++rank) {
    const auto place = hosts.place_of(rank);
    blocks.narrow(0, (place.host * hosts.width() + place.local) * rows, rows).copy_(flat.narrow(0, rank * rows, rows));
  }
  return blocks;
}

}  // namespace

Plan all_reduce(const Engines& engines, at::Tensor tensor, ReduceOp op, const Call& call) {
  const auto& hosts = engines.hosts;
  const auto inner = carrier_op(tensor.scalar_type(), op);
  auto carried = tensor.to(carried_as(tensor));
  const auto slices = slices_of(hosts, carried.view({-1}));
  const auto local = static_cast<std::size_t>(hosts.self.local);
  const bool carries = local < slices.size();
  Plan plan;
  plan.add(Lane::up,
           [&engines, carried, inner, call]() mutable { return engines.up->all_reduce(carried, inner, call); });
  if (carries) {
    plan.add(Lane::across, [&engines, slice = slices[local], inner, call]() mutable {
      return engines.across->all_reduce(slice, inner, call);
    });
  }
  plan.add(Lane::down, [=, &engines, size = hosts.size()] {
    if (carries && op == ReduceOp::mean) slices[local].div_(size);
    return hand_out(engines, slices, call);
  });
  if (!carried.is_same(tensor)) plan.finish = [tensor, carried] { tensor.copy_(carried); };
  return plan;
}

Plan reduce(const Engines& engines, at::Tensor tensor, int root, ReduceOp op, const Call& call) {
  const auto& hosts = engines.hosts;
  const auto to = hosts.place_of(root);
  const auto inner = carrier_op(tensor.scalar_type(), op);
  const bool is_root = to == hosts.self;
  // The leader gets its host's sum, which is not for its own tensor to keep.
  auto carried = tensor.to(carried_as(tensor), false, /*copy=*/hosts.leads() && !is_root);
  Plan plan;
  plan.add(Lane::up,
           [&engines, carried, inner, call]() mutable { return engines.up->reduce(carried, 0, inner, call); });
  if (hosts.leads()) {
    plan.add(Lane::across, [&engines, carried, to, inner, call]() mutable {
      return engines.across->reduce(carried, to.host, inner, call);
    });
  }
  if (hosts.leads() && !is_root && to.host == hosts.self.host) {
    plan.add(Lane::down, [&engines, carried, to, call] { return engines.down->send(carried, to.local, 0, call); });
  }
  if (is_root && !hosts.leads()) {
    plan.add(Lane::down, [&engines, carried, call]() mutable { return engines.down->receive(carried, 0, 0, call); });
  }
  if (is_root) plan.finish = [=, size = hosts.size()]() mutable { deliver(tensor, carried, op, size); };
  return plan;
}

Plan reduce_scatter(const Engines& engines, at::Tensor output, at::Tensor input, ReduceOp op, const Call& call) {
  const auto& hosts = engines.hosts;
  const auto inner = carrier_op(input.scalar_type(), op);
  const auto dtype = carried_as(input);
  auto carried = input.to(dtype, false, /*copy=*/hosts.leads()).view({-1});
  auto mine = dtype == output.scalar_type() ? output : at::empty(output.sizes(), output.options().dtype(dtype));
  const auto rows = output.numel();
  at::Tensor block;  // this host's rows
  Plan plan;
  plan.add(Lane::up,
           [&engines, carried, inner, call]() mutable { return engines.up->reduce(carried, 0, inner, call); });
  if (hosts.leads()) {
    block = at::empty({hosts.width() * rows}, carried.options());
    plan.add(Lane::across, [&engines, block, carried, rows, inner, call]() mutable {
      return engines.across->reduce_scatter(block, by_host(engines.hosts, carried, rows), inner, call);
    });
    block = block.narrow(0, 0, static_cast<std::int64_t>(hosts.neighbours().size()) * rows);
  }
  plan.add(Lane::down, [&engines, block, mine, call]() mutable {
    return engines.down->scatter(mine, block.defined() ? &block : nullptr, 0, call);
  });
  plan.finish = [=, size = hosts.size()]() mutable { deliver(output, mine, op, size); };
  return plan;
}

}  // namespace lockstep::detail::hierarchy
