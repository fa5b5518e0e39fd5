// Copies: what all ranks of a host are to get crosses the network to that host once.
//
//              inside a host (up)          between hosts (across)             inside a host (down)
// broadcast    from root, on its host      broadcast of each column's slice   each slice from its carrier, elsewhere
// all_gather   all_gather                  all_gather of the hosts' blocks    the other hosts' blocks from the leader
// barrier      barrier                     barrier of the leaders             barrier
#include <lockstep/comm/carrier.h>
#include <lockstep/comm/hierarchy/plans.h>
#include <lockstep/comm/hierarchy/slices.h>
#include <lockstep/comm/work_states.h>

#include <ATen/ops/empty.h>

#include <cstddef>
#include <utility>

namespace lockstep::detail::hierarchy {
namespace {

// The rows of every rank from the blocks of its host to its place in rank order.
void put_in_order(const Hosts& hosts, const at::Tensor& output, const at::Tensor& blocks, std::int64_t rows) {
  for (int rank = 0; rank < hosts.size(); ++rank) {
    const auto place = hosts.place_of(rank);
    const auto begin = (place.host * hosts.width() + place.local) * rows;
    output.narrow(0, rank * rows, rows).copy_(blocks.narrow(0, begin, rows));
  }
}

Backend::Pending from_leader(const Engines& engines, const std::vector<at::Tensor>& parts, const Call& call) {
  std::vector<Backend::Pending> works;
  for (auto part : parts) {
    if (part.numel() > 0) works.push_back(engines.down->broadcast(part, 0, call));
  }
  return all_of(std::move(works));
}

}  // namespace

Plan broadcast(const Engines& engines, at::Tensor tensor, int root, const Call& call) {
  const auto& hosts = engines.hosts;
  const auto from = hosts.place_of(root);
  const bool here = from.host == hosts.self.host;
  auto bytes = as_bytes(tensor);
  const auto slices = slices_of(hosts, bytes);
  const auto local = static_cast<std::size_t>(hosts.self.local);
  Plan plan;
  if (here) {
    plan.add(Lane::up,
             [&engines, bytes, from, call]() mutable { return engines.up->broadcast(bytes, from.local, call); });
  }
  if (local < slices.size()) {
    plan.add(Lane::across, [&engines, slice = slices[local], from, call]() mutable {
      return engines.across->broadcast(slice, from.host, call);
    });
  }
  if (!here) plan.add(Lane::down, [&engines, slices, call] { return hand_out(engines, slices, call); });
  return plan;
}

Plan all_gather(const Engines& engines, at::Tensor output, at::Tensor input, const Call& call) {
  const auto& hosts = engines.hosts;
  auto everything = as_bytes(output);
  auto mine = as_bytes(input);
  const auto rows = mine.numel();
  const auto width = hosts.width() * rows;
  auto blocks = hosts.in_order() ? everything : at::empty({hosts.count() * width}, everything.options());
  const auto begin = hosts.self.host * width;
  auto block = blocks.narrow(0, begin, width);
  auto filled = block.narrow(0, 0, static_cast<std::int64_t>(hosts.neighbours().size()) * rows);
  std::vector<at::Tensor> others = {blocks.narrow(0, 0, begin),
                                    blocks.narrow(0, begin + width, blocks.numel() - begin - width)};
  Plan plan;
  plan.add(Lane::up, [&engines, filled, mine, call]() mutable { return engines.up->all_gather(filled, mine, call); });
  if (hosts.leads()) {
    plan.add(Lane::across,
             [&engines, blocks, block, call]() mutable { return engines.across->all_gather(blocks, block, call); });
  }
  plan.add(Lane::down, [&engines, others, call] { return from_leader(engines, others, call); });
  if (!hosts.in_order()) {
    plan.finish = [&engines, everything, blocks, rows] { put_in_order(engines.hosts, everything, blocks, rows); };
  }
  return plan;
}

Plan barrier(const Engines& engines, const Call& call) {
  Plan plan;
  plan.add(Lane::up, [&engines, call] { return engines.up->barrier(call); });
  if (engines.hosts.leads()) plan.add(Lane::across, [&engines, call] { return engines.across->barrier(call); });
  plan.add(Lane::down, [&engines, call] { return engines.down->barrier(call); });
  return plan;
}

}  // namespace lockstep::detail::hierarchy
