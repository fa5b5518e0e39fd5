// CUDA tensors through the host's memory, over a backend for the CPU: for ranks that share a device, which NCCL
// refuses, and for encrypted traffic between hosts. Sums are bitwise those of the backend for the CPU.
#include <lockstep/comm/backends.h>
#include <lockstep/comm/meet/stores.h>
#include <lockstep/comm/staged/stages.h>

#include <utility>

namespace lockstep::detail {
namespace {

using staged::Pair;
using staged::Stages;

// A second backend of the same kind as the group's backend for the CPU. The thread uses it; the program uses the other.
std::unique_ptr<Backend> make_inner(const BackendContext& context) {
  BackendContext inner = context;
  inner.store = c10::make_intrusive<c10d::PrefixStore>("staged", context.store);
  inner.name = context.name + "/staged";
  inner.device = c10::Device(c10::kCPU);
  inner.beside = inner.parent = nullptr;
  return backend_called(context.beside->name()).make(inner);
}

class StagedBackend : public Backend {
 public:
  explicit StagedBackend(const BackendContext& context)
      : rank_(context.rank), inner_(make_inner(context)), stages_(context.device, context.timeout) {}

  std::string_view name() const override { return "staged"; }
  bool holds_tensors() const override { return true; }

  Pending all_reduce(at::Tensor& tensor, ReduceOp op, const Call& call) override {
    auto all = pair(tensor);
    return stages_.run({.before = {all},
                        .start = [this, all, op, call]() mutable { return inner_->all_reduce(all.on_host, op, call); },
                        .after = {all}});
  }

  Pending reduce(at::Tensor& tensor, int root, ReduceOp op, const Call& call) override {
    auto all = pair(tensor);
    return stages_.run(
        {.before = {all},
         .start = [this, all, root, op, call]() mutable { return inner_->reduce(all.on_host, root, op, call); },
         .after = of_root(root, all)});
  }

  Pending broadcast(at::Tensor& tensor, int root, const Call& call) override {
    auto all = pair(tensor);
    return stages_.run(
        {.before = of_root(root, all),
         .start = [this, all, root, call]() mutable { return inner_->broadcast(all.on_host, root, call); },
         .after = rank_ == root ? std::vector<Pair>{} : std::vector{all}});
  }

  Pending all_gather(at::Tensor& output, const at::Tensor& input, const Call& call) override {
    return move(output, input,
                [this, call](at::Tensor& to, const at::Tensor& from) { return inner_->all_gather(to, from, call); });
  }

  Pending reduce_scatter(at::Tensor& output, const at::Tensor& input, ReduceOp op, const Call& call) override {
    return move(output, input, [this, op, call](at::Tensor& to, const at::Tensor& from) {
      return inner_->reduce_scatter(to, from, op, call);
    });
  }

  Pending all_to_all(at::Tensor& output, const at::Tensor& input, const Call& call) override {
    return move(output, input,
                [this, call](at::Tensor& to, const at::Tensor& from) { return inner_->all_to_all(to, from, call); });
  }

  Pending gather(at::Tensor* output, const at::Tensor& input, int root, const Call& call) override {
    auto from = pair(input);
    auto to = output != nullptr ? pair(*output) : Pair{};
    return stages_.run({.before = {from},
                        .start =
                            [this, from, to, root, call]() mutable {
                              return inner_->gather(to.on_host.defined() ? &to.on_host : nullptr, from.on_host, root,
                                                    call);
                            },
                        .after = of_root(root, to)});
  }

  Pending scatter(at::Tensor& output, const at::Tensor* input, int root, const Call& call) override {
    auto from = input != nullptr ? pair(*input) : Pair{};
    auto to = pair(output);
    return stages_.run({.before = of_root(root, from),
                        .start =
                            [this, from, to, root, call]() mutable {
                              return inner_->scatter(to.on_host, from.on_host.defined() ? &from.on_host : nullptr, root,
                                                     call);
                            },
                        .after = {to}});
  }

  Pending send(const at::Tensor& tensor, int destination, int tag, const Call& call) override {
    auto all = pair(tensor);
    return stages_.run(
        {.before = {all},
         .start = [this, all, destination, tag, call] { return inner_->send(all.on_host, destination, tag, call); },
         .after = {}});
  }

  Pending receive(at::Tensor& tensor, int source, int tag, const Call& call) override {
    auto all = pair(tensor);
    return stages_.run(
        {.before = {},
         .start = [this, all, source, tag, call]() mutable { return inner_->receive(all.on_host, source, tag, call); },
         .after = {all}});
  }

  void abort() noexcept override {
    inner_->abort();
    stages_.abort();
  }

 private:
  Pair pair(const at::Tensor& tensor) const { return {tensor, stages_.on_host(tensor)}; }

  std::vector<Pair> of_root(int root, const Pair& pair) const {
    return rank_ == root ? std::vector{pair} : std::vector<Pair>{};
  }

  template <typename Start>
  Pending move(const at::Tensor& output, const at::Tensor& input, Start start) {
    auto to = pair(output);
    auto from = pair(input);
    return stages_.run({.before = {from},
                        .start = [to, from, start]() mutable { return start(to.on_host, from.on_host); },
                        .after = {to}});
  }

  const int rank_;
  const std::unique_ptr<Backend> inner_;
  Stages stages_;  ///< last: its thread uses the other member
};

}  // namespace

std::unique_ptr<Backend> make_staged_backend(const BackendContext& context) {
  return std::make_unique<StagedBackend>(context);
}

}  // namespace lockstep::detail
