// CUDA tensors over NCCL, beside a backend for the CPU, which does the rendezvous, compares calls and detects losses.
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/comm/arguments.h>
#include <lockstep/comm/backend.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/device/lane.h>
#include <lockstep/comm/nccl/communicator.h>
#include <lockstep/comm/work_states.h>

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/ScalarType.h>
#include <c10/cuda/CUDAStream.h>
#include <nccl.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

namespace lockstep::detail {
namespace nccl {
namespace {

// NCCL's names of dtypes and reductions:

/// How NCCL reduces a dtype.
struct Reduced {
  ncclDataType_t type;
  ncclRedOp_t op;
};

/// nullopt for dtypes that NCCL lacks. The values of bool are 0 and 1, so "any" is the maximum.
std::optional<Reduced> reduced(at::ScalarType dtype, ReduceOp op) {
  const auto redop = [op] {
    switch (op) {
      case ReduceOp::sum: return ncclSum;
      case ReduceOp::mean: return ncclAvg;
      case ReduceOp::min: return ncclMin;
      case ReduceOp::max: return ncclMax;
      case ReduceOp::product: return ncclProd;
    }
    return ncclSum;
  }();
  switch (dtype) {
    case at::kFloat: return Reduced{ncclFloat32, redop};
    case at::kDouble: return Reduced{ncclFloat64, redop};
    case at::kHalf: return Reduced{ncclFloat16, redop};
    case at::kBFloat16: return Reduced{ncclBfloat16, redop};
    case at::kByte: return Reduced{ncclUint8, redop};
    case at::kChar: return Reduced{ncclInt8, redop};
    case at::kInt: return Reduced{ncclInt32, redop};
    case at::kLong: return Reduced{ncclInt64, redop};
    case at::kBool: {
      const bool any = op == ReduceOp::sum || op == ReduceOp::max;
      return Reduced{ncclUint8, any ? ncclMax : ncclMin};
    }
    default: return std::nullopt;
  }
}

/// The dtype in which NCCL reduces a dtype that it lacks, with the same results; nullopt where there is none.
std::optional<at::ScalarType> stand_in(at::ScalarType dtype) {
  return dtype == at::kShort ? std::optional(at::kInt) : std::nullopt;
}

}  // namespace
}  // namespace nccl

namespace {

using Clock = std::chrono::steady_clock;

// NCCL reads only variables. A value that the user set for NCCL itself has precedence.
void tell_interface() {
  if (const auto name = find(current_environment(), "LOCKSTEP_SOCKET_IFNAME")) {
    ::setenv("NCCL_SOCKET_IFNAME", name->c_str(), /*overwrite=*/0);
  }
}

class NcclBackend : public Backend {
 public:
  explicit NcclBackend(const BackendContext& context)
      : rank_(context.rank),
        size_(context.size),
        timeout_(context.timeout),
        check_([check = context.throw_if_lost, others = others_of(context.rank, context.size)] { check(others); }),
        lane_(context.device),
        communicator_(meet(context)),
        watch_(context.device, context.timeout,
               {.check =
                    [check = check_, communicator = communicator_] {
                      check();
                      communicator->check();
                    },
                .failed = context.end_group,
                .end_engine = [communicator = communicator_] { communicator->abort(); }}) {}

  ~NcclBackend() override {
    try {
      drain(Clock::now() + timeout_);
    } catch (const Error&) {
      communicator_->abort();
    }
  }

  std::string_view name() const override { return "nccl"; }

  Pending all_reduce(at::Tensor& tensor, ReduceOp op, const Call& call) override {
    return reduce_into(tensor, tensor, op, call, ncclAllReduce);
  }

  Pending reduce(at::Tensor& tensor, int root, ReduceOp op, const Call& call) override {
    return reduce_into(tensor, tensor, op, call,
                       [root](const void* input, void* output, std::size_t count, ncclDataType_t type,
                              ncclRedOp_t redop, ncclComm_t comm, cudaStream_t stream) {
                         return ncclReduce(input, output, count, type, redop, root, comm, stream);
                       });
  }

  Pending reduce_scatter(at::Tensor& output, const at::Tensor& input, ReduceOp op, const Call& call) override {
    return reduce_into(output, input, op, call, ncclReduceScatter);
  }

  Pending broadcast(at::Tensor& tensor, int root, const Call& call) override {
    return start(call, {tensor}, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclBroadcast(tensor.data_ptr(), tensor.data_ptr(), tensor.nbytes(), ncclUint8, root, comm, stream);
    });
  }

  Pending all_gather(at::Tensor& output, const at::Tensor& input, const Call& call) override {
    return start(call, {output, input}, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllGather(input.data_ptr(), output.data_ptr(), input.nbytes(), ncclUint8, comm, stream);
    });
  }

  Pending all_to_all(at::Tensor& output, const at::Tensor& input, const Call& call) override {
    std::vector<Part> parts;
    for (int peer = 0; peer < size_; ++peer) {
      parts.push_back({Part::sent, input, peer, peer});
      parts.push_back({Part::received, output, peer, peer});
    }
    return start_parts(call, output, input, input.nbytes() / static_cast<std::size_t>(size_), parts);
  }

  Pending gather(at::Tensor* output, const at::Tensor& input, int root, const Call& call) override {
    std::vector<Part> parts = {{Part::sent, input, 0, root}};
    for (int peer = 0; output && peer < size_; ++peer) parts.push_back({Part::received, *output, peer, peer});
    return start_parts(call, output ? *output : at::Tensor(), input, input.nbytes(), parts);
  }

  Pending scatter(at::Tensor& output, const at::Tensor* input, int root, const Call& call) override {
    std::vector<Part> parts = {{Part::received, output, 0, root}};
    for (int peer = 0; input && peer < size_; ++peer) parts.push_back({Part::sent, *input, peer, peer});
    return start_parts(call, output, input ? *input : at::Tensor(), output.nbytes(), parts);
  }

  Pending send(const at::Tensor& tensor, int destination, int tag, const Call& call) override {
    require_no_tag(tag);
    return start_parts(call, {}, tensor, tensor.nbytes(), {{Part::sent, tensor, 0, destination}});
  }

  Pending receive(at::Tensor& tensor, int source, int tag, const Call& call) override {
    require_no_tag(tag);
    return start_parts(call, tensor, {}, tensor.nbytes(), {{Part::received, tensor, 0, source}});
  }

  bool holds_tensors() const override { return true; }

  void left_out_of_subgroup() override {
    const c10::DeviceGuard on_device(lane_.device());
    const auto deadline = Clock::now() + timeout_;
    drain(deadline);
    nccl::Communicator::stay_out(*communicator_, {deadline, check_});
  }

  void abort() noexcept override { watch_.abort(); }

 private:
  /// A part of a tensor that is sent to or received from `peer`.
  struct Part {
    enum Direction { sent, received };
    Direction direction;
    at::Tensor of;
    int number;  ///< of the part, from 0; all parts of a call have the same length
    int peer;
  };

  std::shared_ptr<nccl::Communicator> meet(const BackendContext& context) {
    tell_interface();
    const c10::DeviceGuard on_device(context.device);
    const nccl::Patience patience{
        Clock::now() + context.start_timeout,
        [check = context.while_connecting, others = others_of(rank_, size_)] { check(others); }};
    if (auto* parent = dynamic_cast<NcclBackend*>(context.parent)) {
      parent->drain(patience.deadline);
      return std::make_shared<nccl::Communicator>(*parent->communicator_, rank_, patience);
    }
    ncclUniqueId id{};
    if (rank_ == 0) id = nccl::new_id();
    const auto ids = context.beside->exchange(std::string(id.internal, sizeof(id.internal)), {"connect"});
    std::memcpy(id.internal, ids.front().data(), sizeof(id.internal));
    return std::make_shared<nccl::Communicator>(id, rank_, size_, patience);
  }

  // Nothing may run on a communicator that is split or closed. The watch checks the running operations.
  void drain(Clock::time_point deadline) {
    while (lane_.last() && !lane_.last()->is_complete() && !watch_.is_over()) {
      if (Clock::now() >= deadline) fail(ErrorKind::timeout, "nccl", "the device did not complete its work in time");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (watch_.is_over()) fail(ErrorKind::peer_lost, "nccl", "the communicator of NCCL was ended");
  }

  template <typename Calls>
  Pending start(const Call& call, std::initializer_list<at::Tensor> tensors, const Calls& calls) {
    const auto stream = c10::cuda::CUDAStream(lane_.stream()).stream();
    const nccl::Patience patience{Clock::now() + timeout_, check_};
    auto operation = lane_.run(tensors, [&] {
      communicator_->launch(
          call.op, [&](ncclComm_t comm) { return calls(comm, stream); }, patience);
    });
    watch_.add(call, operation);
    return pending(std::move(operation));
  }

  template <typename Reduction>
  Pending reduce_into(at::Tensor& output, const at::Tensor& input, ReduceOp op, const Call& call,
                      const Reduction& reduction) {
    if (const auto wider = nccl::stand_in(input.scalar_type())) {
      const auto widened = input.to(*wider);
      auto result = input.is_same(output) ? widened : at::empty(output.sizes(), widened.options());
      auto reduced = reduce_into(result, widened, op, call, reduction);
      return then(std::move(reduced), [output, result]() mutable { output.copy_(result); });
    }
    const auto as = nccl::reduced(input.scalar_type(), op);
    if (!as) fail(ErrorKind::unsupported, call.op, "nccl has no reduction of {}", dtype_name(input.scalar_type()));
    const auto count = static_cast<std::size_t>(output.numel());
    return start(call, {output, input}, [&](ncclComm_t comm, cudaStream_t stream) {
      return reduction(input.data_ptr(), output.data_ptr(), count, as->type, as->op, comm, stream);
    });
  }

  // All parts are started together, so their order does not matter.
  Pending start_parts(const Call& call, const at::Tensor& output, const at::Tensor& input, std::size_t bytes,
                      const std::vector<Part>& parts) {
    return start(call, {output, input}, [&](ncclComm_t comm, cudaStream_t stream) {
      auto result = ncclGroupStart();
      for (const auto& part : parts) {
        if (!nccl::went_well(result)) break;
        auto* memory = static_cast<std::byte*>(part.of.data_ptr()) + static_cast<std::size_t>(part.number) * bytes;
        result = part.direction == Part::sent ? ncclSend(memory, bytes, ncclUint8, part.peer, comm, stream)
                                              : ncclRecv(memory, bytes, ncclUint8, part.peer, comm, stream);
      }
      const auto grouped = ncclGroupEnd();
      return nccl::went_well(result) ? grouped : result;
    });
  }

  static void require_no_tag(int tag) {
    if (tag == 0) return;
    fail(ErrorKind::unsupported, "nccl", "messages over NCCL have no tags, so tag must be 0; it is {}", tag);
  }

  const int rank_;
  const int size_;
  const std::chrono::milliseconds timeout_;
  const std::function<void()> check_;
  Lane lane_;
  std::shared_ptr<nccl::Communicator> communicator_;
  DeviceWatch watch_;  ///< last: its thread uses the other members
};

}  // namespace

std::unique_ptr<Backend> make_nccl_backend(const BackendContext& context) {
  return std::make_unique<NcclBackend>(context);
}

}  // namespace lockstep::detail
