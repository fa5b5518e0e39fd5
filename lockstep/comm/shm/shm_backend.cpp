// The shm backend: shared memory between the ranks of one host. This file converts tensors to bytes for the core.
#include <lockstep/base/available_memory.h>
#include <lockstep/base/error.h>
#include <lockstep/comm/backend.h>
#include <lockstep/comm/backends.h>
#include <lockstep/comm/meet/stores.h>
#include <lockstep/comm/shm/arena.h>
#include <lockstep/comm/shm/engine.h>
#include <lockstep/comm/shm/rendezvous.h>
#include <lockstep/comm/shm/transfer.h>
#include <lockstep/comm/tensor_reduction.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <limits>
#include <system_error>
#include <thread>
#include <utility>

namespace lockstep::detail {
namespace {

using shm::Buffers;
using shm::DType;
using shm::Kind;
using shm::Signature;

constexpr auto kInvitationKey = "shm_invitation";

std::byte* bytes_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

std::size_t item_bytes(const at::Tensor& tensor) { return tensor.element_size(); }

// An operation of the core that keeps its tensors alive.
template <typename Base>
class Holding : public Base {
 public:
  template <typename... Args>
  Holding(at::Tensor first, at::Tensor second, Args&&... args)
      : Base(std::forward<Args>(args)...), first_(std::move(first)), second_(std::move(second)) {}

 private:
  at::Tensor first_;
  at::Tensor second_;
};

class ShmState : public WorkState {
 public:
  ShmState(std::shared_ptr<shm::Engine> engine, std::shared_ptr<shm::ShmOperation> operation)
      : engine_(std::move(engine)), operation_(std::move(operation)) {}
  void wait(std::chrono::milliseconds timeout) override { engine_->wait(*operation_, timeout); }
  bool test() override { return engine_->test(*operation_); }
  void check_peers() override { engine_->check(*operation_); }

 private:
  std::shared_ptr<shm::Engine> engine_;
  std::shared_ptr<shm::ShmOperation> operation_;
};

// Rank 0 stores its invitation. Polls: see `appears` in rendezvous.cpp for the reason.
shm::Gathering meet(const BackendContext& context) {
  const auto deadline = std::chrono::steady_clock::now() + context.start_timeout;
  if (context.rank == 0) {
    shm::Host host(shm::geometry_for(context.size));
    const std::string text = host.invitation();
    context.store->set(kInvitationKey, std::vector<std::uint8_t>(text.begin(), text.end()));
    return host.gather(deadline, context.while_connecting);
  }
  auto pause = std::chrono::milliseconds(1);
  while (!context.store->check({kInvitationKey})) {
    if (std::chrono::steady_clock::now() >= deadline) {
      fail(ErrorKind::timeout, "shm", "rank 0 did not open the group in time");
    }
    if (context.while_connecting) context.while_connecting({0});
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(20));
  }
  const auto bytes = context.store->get(kInvitationKey);
  // A little longer than rank 0, which finds the missing ranks at its own deadline.
  return shm::join(std::string(bytes.begin(), bytes.end()), context.rank, context.size,
                   deadline + std::chrono::seconds(1));
}

class ShmBackend : public Backend {
 public:
  /// `registry`: the memory that collectives may use in place, which is allocated by this backend and by backends with
  /// the same registry.
  ShmBackend(const BackendContext& context, std::shared_ptr<shm::SharedBlocks> registry)
      : ShmBackend(context, std::move(registry), meet(context)) {}

  std::string_view name() const override { return "shm"; }

  Pending all_reduce(at::Tensor& tensor, ReduceOp op, const Call& call) override {
    const auto signature = describe(call, Kind::all_reduce, tensor, op);
    if (tensor.nbytes() <= static_cast<std::size_t>(geometry().whole_bytes)) {
      return transfer(signature, tensor, tensor, tensor.nbytes());
    }
    return start(std::make_shared<Holding<shm::SlicedAllReduce>>(
        tensor, at::Tensor(), signature, place(Kind::all_reduce, tensor, tensor), bytes_of(tensor), tensor.nbytes(),
        item_bytes(tensor), kernel(signature)));
  }
  Pending reduce(at::Tensor& tensor, int root, ReduceOp op, const Call& call) override {
    return transfer(describe(call, Kind::reduce, tensor, op, root), tensor, tensor, tensor.nbytes());
  }
  Pending reduce_parts(const at::Tensor& parts, const at::Tensor& input, int root, const std::vector<int>& ranks,
                       ReduceOp op, const Call& call) override {
    return transfer(describe(call, Kind::reduce, input, op, root), input, parts, input.nbytes(), ranks);
  }
  Pending broadcast(at::Tensor& tensor, int root, const Call& call) override {
    return transfer(describe(call, Kind::broadcast, tensor, {}, root), tensor, tensor, tensor.nbytes());
  }
  Pending all_gather(at::Tensor& output, const at::Tensor& input, const Call& call) override {
    return transfer(describe(call, Kind::all_gather, input), input, output, input.nbytes());
  }
  Pending reduce_scatter(at::Tensor& output, const at::Tensor& input, ReduceOp op, const Call& call) override {
    return transfer(describe(call, Kind::reduce_scatter, input, op), input, output, output.nbytes());
  }
  Pending all_to_all(at::Tensor& output, const at::Tensor& input, const Call& call) override {
    return transfer(describe(call, Kind::all_to_all, input), input, output, input.nbytes() / size());
  }
  Pending gather(at::Tensor* output, const at::Tensor& input, int root, const Call& call) override {
    return transfer(describe(call, Kind::gather, input, {}, root), input, output != nullptr ? *output : at::Tensor(),
                    input.nbytes());
  }
  Pending scatter(at::Tensor& output, const at::Tensor* input, int root, const Call& call) override {
    return transfer(describe(call, Kind::scatter, output, {}, root), input != nullptr ? *input : at::Tensor(), output,
                    output.nbytes());
  }
  Pending send(const at::Tensor& tensor, int destination, int tag, const Call&) override {
    return start(std::make_shared<Holding<shm::Send>>(tensor, at::Tensor(), destination, tag, bytes_of(tensor),
                                                      tensor.nbytes()));
  }
  Pending receive(at::Tensor& tensor, int source, int tag, const Call&) override {
    return start(
        std::make_shared<Holding<shm::Receive>>(tensor, at::Tensor(), source, tag, bytes_of(tensor), tensor.nbytes()));
  }
  bool compares_calls() const override { return true; }
  bool holds_tensors() const override { return true; }

  void refuse(const std::string& description) override {
    const auto operation =
        std::make_shared<shm::Transfer>(Signature{.kind = Kind::refused}, shm::Place{}, Buffers{}, nullptr);
    operation->set_note(description);
    engine_->submit(operation);
  }

  Pending barrier(const Call& call) override {
    const Signature signature{.trace = call.trace, .step = call.step};
    return start(std::make_shared<shm::Transfer>(signature, shm::Place{}, Buffers{}, nullptr));
  }

  std::vector<std::string> exchange(const std::string& fingerprint, const Call&) override {
    Signature signature{.kind = Kind::exchange};
    const auto length = static_cast<std::int64_t>(fingerprint.size());
    signature.set_sizes(std::span(&length, 1));
    std::string all(fingerprint.size() * size(), '\0');
    gather_bytes(signature, std::as_bytes(std::span(fingerprint)), std::as_writable_bytes(std::span(all)));
    std::vector<std::string> parts;
    for (std::size_t rank = 0; rank < size(); ++rank) {
      parts.push_back(all.substr(rank * fingerprint.size(), fingerprint.size()));
    }
    return parts;
  }

  at::Tensor allocate(std::int64_t elements, at::ScalarType dtype) override {
    const auto options = at::TensorOptions().dtype(dtype);
    at::Tensor empty = at::empty({0}, options);
    if (elements == 0) return empty;
    const Signature signature = describe_allocation(empty, elements);
    const auto most = std::numeric_limits<std::size_t>::max() / item_bytes(empty);
    const std::size_t bytes = std::min(most, static_cast<std::size_t>(elements)) * item_bytes(empty);
    check_all(signature, bytes, arena_.has_room_for(bytes) ? 0 : ENOMEM);
    auto made = arena_.make(bytes);
    check_all(signature, bytes, made.error);
    made.block->open();
    std::byte* const data = made.block->part();
    const std::shared_ptr<shm::Block> block = std::move(made.block);
    return at::from_blob(
        data, {elements}, [block](void*) {}, options);
  }

  bool is_unfinished() const noexcept override { return engine_->is_unfinished(); }

  Progressed advance() noexcept override {
    const bool moved = engine_->advance_all();
    return {.unfinished = engine_->is_unfinished(), .moved = moved};
  }

  void abort() noexcept override { engine_->abort(); }

 private:
  ShmBackend(const BackendContext& context, std::shared_ptr<shm::SharedBlocks> registry, shm::Gathering rendezvous)
      : held_(std::move(rendezvous.held)),
        timeout_(context.timeout),
        progress_(context.progress),
        world_ranks_(context.world_ranks),
        registry_(std::move(registry)),
        arena_(std::move(rendezvous.arena), context.rank, context.size, registry_) {
    const auto mapping = std::make_shared<shm::Mapping>(std::move(rendezvous.segment));
    engine_ = std::make_shared<shm::Engine>(shm::Segment(mapping->data(), rendezvous.geometry), mapping,
                                            shm::EngineOptions{.rank = context.rank,
                                                               .cpus = rendezvous.cpus,
                                                               .world_ranks = context.world_ranks,
                                                               .lifelines = std::move(rendezvous.lifelines),
                                                               .while_waiting = context.throw_if_lost});
  }

  int rank() const { return engine_->rank(); }
  std::size_t size() const { return static_cast<std::size_t>(engine_->segment().ranks()); }
  const shm::Geometry& geometry() const { return engine_->segment().geometry(); }

  template <typename Op>
  Pending start(std::shared_ptr<Op> operation) {
    engine_->submit(operation);
    return std::make_shared<ShmState>(engine_, std::move(operation));
  }

  static Signature describe(const Call& call, Kind kind, const at::Tensor& tensor, ReduceOp op = ReduceOp::sum,
                            int root = -1) {
    Signature signature{.kind = kind,
                        .dtype = dtype_of(tensor),
                        .op = static_cast<std::uint8_t>(op),
                        .root = root,
                        .trace = call.trace,
                        .step = call.step};
    // This value does not name the type, so the number of the type distinguishes such types.
    if (signature.dtype == DType::other) signature.op = static_cast<std::uint8_t>(tensor.scalar_type());
    signature.set_sizes({tensor.sizes().data(), tensor.sizes().size()});
    return signature;
  }

  static Signature describe_allocation(const at::Tensor& like, std::int64_t elements) {
    Signature signature = describe({}, Kind::allocate, like);
    signature.set_sizes(std::span(&elements, 1));
    return signature;
  }

  static shm::ReduceKernel kernel(const Signature& signature) {
    const auto op = static_cast<ReduceOp>(signature.op);
    const shm::ReduceKernel found = shm::reduce_kernel(signature.dtype, op);
    if (found == nullptr) fail(ErrorKind::unsupported, "shm", "{} is not possible", shm::describe(signature));
    return found;
  }

  // `input` or `output` may be undefined on ranks without one.
  Pending transfer(const Signature& signature, const at::Tensor& input, const at::Tensor& output, std::size_t block,
                   std::vector<int> parts = {}) {
    const shm::Pattern pattern = shm::pattern_of(signature.kind);
    Buffers buffers;
    buffers.block_bytes = block;
    if (input.defined()) buffers.input = bytes_of(input);
    if (output.defined()) buffers.output = bytes_of(output);
    if (input.defined()) buffers.item_bytes = item_bytes(input);
    buffers.parts = std::move(parts);
    return start(std::make_shared<Holding<shm::Transfer>>(input, output, signature,
                                                          place(signature.kind, input, output), buffers,
                                                          pattern.reduces ? kernel(signature) : nullptr));
  }

  // The place of the input where other ranks may read it while this rank writes its output.
  shm::Place place(Kind kind, const at::Tensor& input, const at::Tensor& output) const {
    if (!input.defined() || input.nbytes() < static_cast<std::size_t>(geometry().direct_bytes)) return {};
    const bool in_place = kind == Kind::all_reduce || kind == Kind::broadcast || kind == Kind::reduce;
    if (!in_place && output.defined() && overlap(input, output)) {
      const std::byte* const own_slice = bytes_of(output) + static_cast<std::size_t>(rank()) * input.nbytes();
      if (kind != Kind::all_gather || own_slice != bytes_of(input)) return {};
    }
    return registry_->find(bytes_of(input), input.nbytes());
  }

  static bool overlap(const at::Tensor& a, const at::Tensor& b) {
    const std::less<const std::byte*> before;
    return before(bytes_of(a), bytes_of(b) + b.nbytes()) && before(bytes_of(b), bytes_of(a) + a.nbytes());
  }

  void gather_bytes(const Signature& signature, std::span<const std::byte> mine, std::span<std::byte> all) {
    const Buffers buffers{mine.data(), all.data(), mine.size(), 1};
    const auto operation = std::make_shared<shm::Transfer>(signature, shm::Place{}, buffers, nullptr);
    try {
      engine_->submit(operation);
      ShmState state(engine_, operation);
      wait_in(progress_, state, *this, timeout_);
    } catch (...) {
      if (!operation->done()) engine_->abort();  // or the core would continue with memory that is freed
      throw;
    }
  }

  // Throws on all ranks when one of them has an error.
  void check_all(const Signature& signature, std::size_t bytes, int error) {
    std::vector<int> errors(size());
    gather_bytes(signature, std::as_bytes(std::span(&error, 1)), std::as_writable_bytes(std::span(errors)));
    const auto failed = std::find_if(errors.begin(), errors.end(), [](int code) { return code != 0; });
    if (failed == errors.end()) return;
    constexpr double kGiB = 1 << 30;
    fail(ErrorKind::io, "allocate",
         "rank {} cannot get shared memory for {}: {}. It takes {:.2f} GiB on each of {} ranks, and this machine has "
         "{:.2f} "
         "GiB left",
         failed - errors.begin(), shm::describe(signature), std::generic_category().message(*failed),
         static_cast<double>(bytes) / kGiB, size(), static_cast<double>(available_memory()) / kGiB);
  }

  UniqueFd held_;
  std::chrono::milliseconds timeout_;
  Progress* progress_;
  std::vector<int> world_ranks_;
  std::shared_ptr<shm::SharedBlocks> registry_;
  shm::Arena arena_;
  std::shared_ptr<shm::Engine> engine_;
};

}  // namespace

std::unique_ptr<Backend> make_shm_backend(const BackendContext& context) {
  return std::make_unique<ShmBackend>(context, std::make_shared<shm::SharedBlocks>(context.rank));
}

std::pair<std::unique_ptr<Backend>, std::unique_ptr<Backend>> make_shm_pair(const BackendContext& context) {
  const auto registry = std::make_shared<shm::SharedBlocks>(context.rank);
  auto other = context;
  other.store = c10::make_intrusive<c10d::PrefixStore>("second", context.store);
  // In this order on all ranks, because each constructor connects to the other ranks.
  auto first = std::make_unique<ShmBackend>(context, registry);
  auto second = std::make_unique<ShmBackend>(other, registry);
  return {std::move(first), std::move(second)};
}

}  // namespace lockstep::detail
