// Reductions: each host first adds up the sum of each subtree that its ranks form (reduction/kernels.h), so that little
// data crosses the network. This is one tensor for each host where ranks are placed well.
//
//              inside a host (up)              between hosts (across)             inside a host (down)
// all_reduce   all_reduce                      all_reduce of each column's slice  each slice from its carrier
// reduce       reduce to the leader            reduce of the leaders to root's    root's leader sends to root
// reduce_sc.   reduce to the leader            reduce_scatter of the leaders      scatter by the leader
//
// A host of several subtrees reduces each of them to the rank that carries it, in place of the first column.
//
// Dtypes that an engine would round between steps (float16, bfloat16) are carried as float32 in all steps; a mean is
// divided once, at the end.
#include <lockstep/comm/hierarchy/plans.h>
#include <lockstep/comm/tensor_reduction.h>
#include <lockstep/comm/work_states.h>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace lockstep::detail::hierarchy {
namespace {

// With several subtrees per host, tensors are reduced in parts of this size, one after the other, because the sum of
// each subtree takes this much memory.
constexpr std::int64_t kPart = 32 << 20;  // bytes

at::ScalarType carried_as(const at::Tensor& tensor) { return carrier_dtype(tensor.scalar_type()); }

bool one_subtree_each(const Hosts& hosts) {
  return std::all_of(hosts.subtrees.begin(), hosts.subtrees.end(), [](const auto& trees) { return trees.size() == 1; });
}

// The sums of this host's subtrees, one row each, where there is more than one subtree.
class SubtreeSums {
 public:
  explicit SubtreeSums(const Engines& engines) : engines_(&engines) {
    for (const auto& tree : engines.hosts.own_subtrees()) ranks_.push_back(tree.count);
  }

  // Reduces `input` to the rank at position `root` on this host, which stores the sums.
  Backend::Pending reduce(const at::Tensor& input, int root, ReduceOp op, const Call& call) {
    at::Tensor sums;
    if (root == engines_->hosts.self.local) {
      sums_ = at::empty({static_cast<std::int64_t>(ranks_.size()), input.numel()}, input.options());
      sums = sums_;
    }
    return engines_->up->reduce_parts(sums, input, root, ranks_, op, call);
  }

  at::Tensor take() { return std::exchange(sums_, {}); }

 private:
  const Engines* engines_;
  std::vector<int> ranks_;
  at::Tensor sums_;
};

// Converts [size * rows] in rank order to [hosts * width * rows]: a block for each host with its ranks' rows in their
// order, padded with zeros where the host has fewer ranks than the widest host.
at::Tensor by_host(const Hosts& hosts, const at::Tensor& flat, std::int64_t rows) {
  if (hosts.in_order()) return flat;
  auto blocks = at::zeros({std::int64_t{hosts.count()} * hosts.width() * rows}, flat.options());
  for (int rank = 0; rank < hosts.size(); ++rank) {
    const auto place = hosts.place_of(rank);
    blocks.narrow(0, (place.host * hosts.width() + place.local) * rows, rows).copy_(flat.narrow(0, rank * rows, rows));
  }
  return blocks;
}

void add_all_reduce(Plan& plan, const Engines& engines, at::Tensor flat, ReduceOp op, const Call& call) {
  const auto& hosts = engines.hosts;
  const auto inner = carrier_op(op);
  const auto slices = slices_of(hosts, flat);
  const auto local = static_cast<std::size_t>(hosts.self.local);
  const bool carries = local < slices.size();
  const bool one_subtree = hosts.own_subtrees().size() == 1;
  const auto sums = std::make_shared<SubtreeSums>(engines);
  if (one_subtree) {
    plan.add(Lane::up, [&engines, flat, inner, call]() mutable { return engines.up->all_reduce(flat, inner, call); });
  } else {
    plan.add(Lane::up, [sums, slices, inner, call] {
      std::vector<Backend::Pending> works;
      for (std::size_t carrier = 0; carrier < slices.size(); ++carrier) {
        works.push_back(sums->reduce(slices[carrier], static_cast<int>(carrier), inner, call));
      }
      return all_of(std::move(works));
    });
  }
  if (carries) {
    plan.add(Lane::across, [&engines, slice = slices[local], sums, one_subtree, inner, call] {
      const auto input = one_subtree ? slice : sums->take();
      return engines.across->combine(ResultOf::all_reduce, slice, input, engines.hosts.subtrees, 0, inner, call);
    });
  }
  plan.add(Lane::down, [=, &engines, size = hosts.size()] {
    if (carries && op == ReduceOp::mean) slices[local].div_(size);
    return hand_out(engines, slices, call);
  });
}

}  // namespace

Plan all_reduce(const Engines& engines, at::Tensor tensor, ReduceOp op, const Call& call) {
  auto carried = tensor.to(carried_as(tensor));
  const auto flat = carried.view({-1});
  const auto most =
      one_subtree_each(engines.hosts) ? flat.numel() : kPart / static_cast<std::int64_t>(flat.element_size());
  Plan plan;
  for (const auto& part : split(flat.numel(), most)) {
    add_all_reduce(plan, engines, flat.narrow(0, part.begin, part.count), op, call);
  }
  if (!carried.is_same(tensor)) plan.finish = [tensor, carried] { tensor.copy_(carried); };
  return plan;
}

Plan reduce(const Engines& engines, at::Tensor tensor, int root, ReduceOp op, const Call& call) {
  const auto& hosts = engines.hosts;
  const auto to = hosts.place_of(root);
  const auto inner = carrier_op(op);
  const bool is_root = to == hosts.self;
  const bool one_subtree = hosts.own_subtrees().size() == 1;
  // The leader receives its host's sum in a copy, because its own tensor must not change.
  auto carried = tensor.to(carried_as(tensor), false, /*copy=*/hosts.leads() && !is_root);
  const auto sums = std::make_shared<SubtreeSums>(engines);
  Plan plan;
  plan.add(Lane::up, [&engines, carried, sums, one_subtree, inner, call]() mutable {
    return one_subtree ? engines.up->reduce(carried, 0, inner, call) : sums->reduce(carried, 0, inner, call);
  });
  if (hosts.leads()) {
    plan.add(Lane::across, [&engines, carried, sums, one_subtree, to, inner, call] {
      const auto& ours = engines.hosts;
      const auto output = to.host == ours.self.host ? carried : at::Tensor();
      const auto input = one_subtree ? carried : sums->take();
      return engines.across->combine(ResultOf::reduce, output, input, ours.subtrees, to.host, inner, call);
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
  const auto inner = carrier_op(op);
  const auto dtype = carried_as(input);
  const bool one_subtree = hosts.own_subtrees().size() == 1;
  auto carried = input.to(dtype, false, /*copy=*/hosts.leads()).view({-1});
  auto mine = dtype == output.scalar_type() ? output : at::empty(output.sizes(), output.options().dtype(dtype));
  const auto rows = output.numel();
  const auto sums = std::make_shared<SubtreeSums>(engines);
  at::Tensor block;  // this host's rows
  Plan plan;
  plan.add(Lane::up, [&engines, carried, sums, one_subtree, inner, call]() mutable {
    return one_subtree ? engines.up->reduce(carried, 0, inner, call) : sums->reduce(carried, 0, inner, call);
  });
  if (hosts.leads()) {
    block = at::empty({hosts.width() * rows}, carried.options());
    plan.add(Lane::across, [&engines, block, carried, sums, one_subtree, rows, inner, call] {
      const auto& ours = engines.hosts;
      std::vector<at::Tensor> trees;
      for (const auto& sum : one_subtree ? carried.unsqueeze(0).unbind() : sums->take().unbind()) {
        trees.push_back(by_host(ours, sum, rows));
      }
      const auto brought = trees.size() == 1 ? trees.front() : at::cat(trees);
      return engines.across->combine(ResultOf::reduce_scatter, block, brought, ours.subtrees, 0, inner, call);
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
