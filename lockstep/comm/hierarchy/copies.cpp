// Copies: data for all ranks of a host crosses the network to that host once.
//
//              inside a host (up)          between hosts (across)             inside a host (down)
// broadcast    from root, on its host      broadcast of each column's slice   each slice from its carrier, elsewhere
// all_gather   all_gather                  all_gather of the hosts' blocks    the other hosts' blocks from the leader
// barrier      barrier                     barrier of the leaders             barrier
//
// Data that is different for each pair of ranks crosses the network once in any case, so it is sent directly.
//
// gather, scatter, all_to_all   over the engine of all ranks
// send, receive                 through shared memory to a rank of this host, over the engine of all ranks to others
#include <lockstep/base/error.h>
#include <lockstep/comm/hierarchy/plans.h>
#include <lockstep/comm/tensor_reduction.h>
#include <lockstep/comm/work_states.h>

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <cstddef>
#include <utility>

namespace lockstep::detail::hierarchy {
namespace {

// Copies the rows of every rank from the block of its host to its position in rank order.
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

namespace {

// Errors must name ranks by their number in the group, not by their number on the host.
class Translated : public WorkState {
 public:
  Translated(Backend::Pending work, int source) : work_(std::move(work)), source_(source) {}
  void wait(std::chrono::milliseconds timeout) override {
    try {
      work_->wait(timeout);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::mismatch) throw;
      throw Error(error.kind(), error.where(),
                  fmt::format("the message of rank {} is of another length (the ranks of this host counted from 0: {})",
                              source_, error.message()));
    }
  }
  bool test() override { return work_->test(); }
  void check_peers() override { work_->check_peers(); }

 private:
  Backend::Pending work_;
  int source_;
};

Plan only(Lane lane, std::function<Backend::Pending()> start) {
  Plan plan;
  plan.add(lane, std::move(start));
  return plan;
}

bool is_here(const Engines& engines, int rank) { return engines.hosts.place_of(rank).host == engines.hosts.self.host; }

}  // namespace

Plan gather(const Engines& engines, at::Tensor output, at::Tensor input, int root, const Call& call) {
  return only(Lane::direct, [=, &engines]() mutable {
    return engines.direct->gather(output.defined() ? &output : nullptr, input, root, call);
  });
}

Plan scatter(const Engines& engines, at::Tensor output, at::Tensor input, int root, const Call& call) {
  return only(Lane::direct, [=, &engines]() mutable {
    return engines.direct->scatter(output, input.defined() ? &input : nullptr, root, call);
  });
}

Plan all_to_all(const Engines& engines, at::Tensor output, at::Tensor input, const Call& call) {
  return only(Lane::direct, [=, &engines]() mutable { return engines.direct->all_to_all(output, input, call); });
}

Plan send(const Engines& engines, at::Tensor tensor, int destination, int tag, const Call& call) {
  return only(Lane::message, [=, &engines] {
    if (!is_here(engines, destination)) return engines.direct->send(tensor, destination, tag, call);
    return engines.up->send(tensor, engines.hosts.place_of(destination).local, tag, call);
  });
}

Plan receive(const Engines& engines, at::Tensor tensor, int source, int tag, const Call& call) {
  return only(Lane::message, [=, &engines]() mutable -> Backend::Pending {
    if (!is_here(engines, source)) return engines.direct->receive(tensor, source, tag, call);
    auto work = engines.up->receive(tensor, engines.hosts.place_of(source).local, tag, call);
    return std::make_shared<Translated>(std::move(work), source);
  });
}

}  // namespace lockstep::detail::hierarchy
