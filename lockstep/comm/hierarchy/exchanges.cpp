// What is different for each pair of ranks: it crosses the network once in any case, so it goes straight there.
//
// gather, scatter, all_to_all   over the engine of all ranks
// send, receive                 through shared memory to a rank of this host, over the engine of all ranks to others
#include <lockstep/base/error.h>
#include <lockstep/comm/hierarchy/plans.h>

#include <fmt/format.h>

namespace lockstep::detail::hierarchy {
namespace {

// Errors name ranks by their number in the group, not on the host.
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
