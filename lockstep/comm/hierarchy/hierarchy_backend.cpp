// The hierarchy backend: shared memory between the ranks of a host, tcp or mpi between hosts. Bytes cross the network
// once for each host and not once for each rank. plans.h defines the paths of the data and their order.
#include <lockstep/base/error.h>
#include <lockstep/comm/backend.h>
#include <lockstep/comm/hierarchy/plans.h>

#include <ATen/ops/empty.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace lockstep::detail {
namespace {

using hierarchy::Plan;

class HierarchyBackend : public Backend {
 public:
  explicit HierarchyBackend(const BackendContext& context)
      : engines_(hierarchy::meet(context)),
        timeout_(context.timeout),
        progress_(context.progress),
        pipeline_(context.throw_if_failed) {}

  std::string_view name() const override { return "hierarchy"; }

  Pending all_reduce(at::Tensor& tensor, ReduceOp op, const Call& call) override {
    return pipeline_.start(hierarchy::all_reduce(engines_, tensor, op, call));
  }
  Pending reduce(at::Tensor& tensor, int root, ReduceOp op, const Call& call) override {
    return pipeline_.start(hierarchy::reduce(engines_, tensor, root, op, call));
  }
  Pending broadcast(at::Tensor& tensor, int root, const Call& call) override {
    return pipeline_.start(hierarchy::broadcast(engines_, tensor, root, call));
  }
  Pending all_gather(at::Tensor& output, const at::Tensor& input, const Call& call) override {
    return pipeline_.start(hierarchy::all_gather(engines_, output, input, call));
  }
  Pending reduce_scatter(at::Tensor& output, const at::Tensor& input, ReduceOp op, const Call& call) override {
    return pipeline_.start(hierarchy::reduce_scatter(engines_, output, input, op, call));
  }
  Pending all_to_all(at::Tensor& output, const at::Tensor& input, const Call& call) override {
    return pipeline_.start(hierarchy::all_to_all(engines_, output, input, call));
  }
  Pending gather(at::Tensor* output, const at::Tensor& input, int root, const Call& call) override {
    return pipeline_.start(hierarchy::gather(engines_, output != nullptr ? *output : at::Tensor(), input, root, call));
  }
  Pending scatter(at::Tensor& output, const at::Tensor* input, int root, const Call& call) override {
    return pipeline_.start(hierarchy::scatter(engines_, output, input != nullptr ? *input : at::Tensor(), root, call));
  }
  Pending send(const at::Tensor& tensor, int destination, int tag, const Call& call) override {
    return pipeline_.start(hierarchy::send(engines_, tensor, destination, tag, call));
  }
  Pending receive(at::Tensor& tensor, int source, int tag, const Call& call) override {
    return pipeline_.start(hierarchy::receive(engines_, tensor, source, tag, call));
  }
  Pending barrier(const Call& call) override { return pipeline_.start(hierarchy::barrier(engines_, call)); }

  bool holds_tensors() const override { return true; }

  // Uses the engine of all ranks, beside the pending operations. These advance meanwhile, because another rank may wait
  // for one of them before it calls this function.
  std::vector<std::string> exchange(const std::string& fingerprint, const Call& call) override {
    const auto length = static_cast<std::int64_t>(fingerprint.size());
    const auto mine = at::empty({length}, at::kByte);
    auto all = at::empty({engines_.hosts.size() * length}, at::kByte);
    std::copy(fingerprint.begin(), fingerprint.end(), static_cast<char*>(mine.data_ptr()));
    Plan plan;
    plan.add(hierarchy::Lane::direct,
             [this, mine, all, call]() mutable { return engines_.direct->all_gather(all, mine, call); });
    wait_in(progress_, *pipeline_.start(std::move(plan)), *this, timeout_);

    std::vector<std::string> texts;
    const auto* text = static_cast<const char*>(all.data_ptr());
    for (int rank = 0; rank < engines_.hosts.size(); ++rank) texts.emplace_back(text + rank * length, length);
    return texts;
  }

  at::Tensor allocate(std::int64_t elements, at::ScalarType dtype) override {
    // All ranks have arrived: no rank waits for an operation that cannot advance while this rank waits for its host.
    exchange("allocate", {"allocate", 0});
    at::Tensor memory;
    std::string problem;
    try {
      memory = engines_.up->allocate(elements, dtype);
    } catch (const Error& error) {
      // An error other than a lack of memory must end the group, because the other hosts have not received it yet.
      if (error.kind() != ErrorKind::io) throw Error(ErrorKind::peer_lost, "allocate", error.message());
      problem = error.message();
    }
    problem.resize(kProblemBytes, '\0');
    const auto problems = exchange(problem, {"allocate", 0});
    for (std::size_t rank = 0; rank < problems.size(); ++rank) {
      if (problems[rank].front() == '\0') continue;
      fail(ErrorKind::io, "allocate", "on the host of rank {} (whose ranks count from 0 here): {}", rank,
           problems[rank].c_str());
    }
    return memory;
  }

  bool is_unfinished() const noexcept override { return pipeline_.is_unfinished(); }
  Progressed advance() noexcept override { return pipeline_.advance_all(); }

  void abort() noexcept override {
    for (auto* engine : {engines_.up.get(), engines_.across.get(), engines_.down.get(), engines_.direct.get()}) {
      if (engine != nullptr) engine->abort();
    }
  }

 private:
  static constexpr std::size_t kProblemBytes = 400;

  hierarchy::Engines engines_;
  std::chrono::milliseconds timeout_;
  Progress* progress_;
  hierarchy::Pipeline pipeline_;  // after the engines: pending operations are destroyed before them
};

}  // namespace

std::unique_ptr<Backend> make_hierarchy_backend(const BackendContext& context) {
  return std::make_unique<HierarchyBackend>(context);
}

}  // namespace lockstep::detail
