// The mpi backend: non-blocking operations of MPI itself, polled while a thread waits, because MPI's own waits have no
// deadline. Nothing moves while no thread waits or tests, unless the MPI library has its own progress thread.
#include <lockstep/base/error.h>
#include <lockstep/comm/backend.h>
#include <lockstep/comm/mpi/progress.h>
#include <lockstep/comm/mpi/runtime.h>
#include <lockstep/comm/reduction/network_reduction.h>
#include <lockstep/comm/tensor_reduction.h>

#include <ATen/ops/empty.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace lockstep::detail {
namespace mpi {
namespace {

/// A reduction as MPI messages: at most two of its exchanges are pending at a time.
class MpiReduction : public UnderWay {
 public:
  MpiReduction(NetworkCall call, std::vector<at::Tensor> kept, std::shared_ptr<const Communicator> comm, int tag)
      : reduction_(std::make_shared<NetworkReduction>(std::move(call))),
        kept_(std::move(kept)),
        comm_(std::move(comm)),
        tag_(tag) {}

  std::int64_t bytes() const override {
    std::int64_t sum = 0;
    for (const auto& tensor : kept_) sum += tensor.defined() ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
    return 2 * sum;
  }

 protected:
  bool move() override {
    const int count = reduction_->exchanges();
    for (;;) {
      if (posted_ < count && posted_ - finished_ < 2) {
        post(posted_);
        ++posted_;
      } else if (finished_ == count) {
        return true;
      } else {
        auto& requests = under_way_[static_cast<std::size_t>(finished_ % 2)];
        if (!requests->complete()) return false;
        requests.reset();
        reduction_->finished(finished_);
        ++finished_;
      }
    }
  }

 private:
  void post(int k) {
    // The reduction is kept too, because messages arrive in memory that it owns.
    auto requests = std::make_unique<Requests>(kept_, comm_, reduction_);
    const auto exchange = reduction_->exchange(k);
    for (const auto& message : exchange.receives) {
      check(MPI_Irecv(message.data, static_cast<int>(message.bytes), MPI_BYTE, message.peer, tag_, comm_->get(),
                      requests->add()),
            "MPI_Irecv");
    }
    for (const auto& message : exchange.sends) {
      check(MPI_Isend(message.data, static_cast<int>(message.bytes), MPI_BYTE, message.peer, tag_, comm_->get(),
                      requests->add()),
            "MPI_Isend");
    }
    under_way_[static_cast<std::size_t>(k % 2)] = std::move(requests);
  }

  std::shared_ptr<NetworkReduction> reduction_;
  std::vector<at::Tensor> kept_;
  std::shared_ptr<const Communicator> comm_;
  int tag_;
  int posted_ = 0;
  int finished_ = 0;
  std::array<std::unique_ptr<Requests>, 2> under_way_;
};

std::shared_ptr<const Communicator> communicator_for(BackendContext context) {
  context.name += "/reductions";
  return std::make_shared<Communicator>(context);
}

/// Reductions as messages of MPI, in the order of the sum tree. MPI's own order depends on the library and its
/// settings.
class MpiReducer {
 public:
  /// Collective over the group; messages of reductions have their own communicator.
  explicit MpiReducer(const BackendContext& context) : comm_(communicator_for(context)) {}

  /// All ranks call it in the same order. `kept`, the memory of `call`, is held until completion. `look_around` as in
  /// `poll`.
  Backend::Pending start(NetworkCall call, std::vector<at::Tensor> kept, std::function<void()> look_around) {
    auto reduction = std::make_shared<MpiReduction>(std::move(call), std::move(kept), comm_, next_tag_);
    constexpr int kLeastLimit = 32767;  // of tags, which every MPI has
    next_tag_ = (next_tag_ + 1) % kLeastLimit;
    return mpi::start(std::move(reduction), std::move(look_around));
  }

 private:
  std::shared_ptr<const Communicator> comm_;
  int next_tag_ = 0;
};

}  // namespace
}  // namespace mpi

namespace {

using mpi::check;
using mpi::RequestBlock;
using mpi::Requests;

class MpiBackend : public NetworkBackend {
 public:
  explicit MpiBackend(const BackendContext& context)
      : NetworkBackend(context.rank, context.size),
        comm_(std::make_shared<mpi::Communicator>(context)),
        reducer_(context),
        timeout_(context.timeout),
        progress_(context.progress),
        throw_if_lost_(context.throw_if_lost) {
    for (int rank = 0; rank < size_; ++rank) {
      if (rank != rank_) others_.push_back(rank);
    }
  }

  std::string_view name() const override { return "mpi"; }

  Pending combine(ResultOf kind, const at::Tensor& output, const at::Tensor& input,
                  const std::vector<std::vector<RankRange>>& brought, int root, ReduceOp op, const Call&) override {
    return reducer_.start(network_call(kind, rank_, root, brought, input, output, op), {output, input},
                          look_for(others_));
  }

  Pending broadcast(at::Tensor& tensor, int root, const Call&) override {
    const auto requests = requests_with({tensor});
    const RequestBlock block(bytes_of(tensor));
    check(MPI_Ibcast(tensor.data_ptr(), block.count(), block.type(), root, comm_->get(), requests->add()),
          "MPI_Ibcast");
    return collective(requests);
  }

  Pending all_gather(at::Tensor& output, const at::Tensor& input, const Call&) override {
    const auto requests = requests_with({output, input});
    const RequestBlock block(bytes_of(input));
    const auto* const own_slice = static_cast<const std::byte*>(output.data_ptr()) + rank_ * bytes_of(input);
    const bool in_place = input.data_ptr() == own_slice;
    check(MPI_Iallgather(in_place ? MPI_IN_PLACE : input.data_ptr(), block.count(), block.type(), output.data_ptr(),
                         block.count(), block.type(), comm_->get(), requests->add()),
          "MPI_Iallgather");
    return collective(requests);
  }

  Pending all_to_all(at::Tensor& output, const at::Tensor& input, const Call&) override {
    const auto requests = requests_with({output, input});
    const RequestBlock block(bytes_of(input) / size_);
    check(MPI_Ialltoall(input.data_ptr(), block.count(), block.type(), output.data_ptr(), block.count(), block.type(),
                        comm_->get(), requests->add()),
          "MPI_Ialltoall");
    return collective(requests);
  }

  Pending gather(at::Tensor* output, const at::Tensor& input, int root, const Call&) override {
    const auto whole = output != nullptr ? *output : at::Tensor();
    const auto requests = requests_with({whole, input});
    const RequestBlock block(bytes_of(input));
    check(MPI_Igather(input.data_ptr(), block.count(), block.type(), whole.defined() ? whole.data_ptr() : nullptr,
                      block.count(), block.type(), root, comm_->get(), requests->add()),
          "MPI_Igather");
    return collective(requests);
  }

  Pending scatter(at::Tensor& output, const at::Tensor* input, int root, const Call&) override {
    const auto whole = input != nullptr ? *input : at::Tensor();
    const auto requests = requests_with({whole, output});
    const RequestBlock block(bytes_of(output));
    check(MPI_Iscatter(whole.defined() ? whole.data_ptr() : nullptr, block.count(), block.type(), output.data_ptr(),
                       block.count(), block.type(), root, comm_->get(), requests->add()),
          "MPI_Iscatter");
    return collective(requests);
  }

  Pending send(const at::Tensor& tensor, int destination, int tag, const Call&) override {
    check_tag(tag);
    const auto requests = requests_with({tensor});
    const RequestBlock block(bytes_of(tensor));
    check(MPI_Isend(tensor.data_ptr(), block.count(), block.type(), destination, tag, comm_->get(), requests->add()),
          "MPI_Isend");
    return mpi::start(requests, look_for({destination}));
  }

  Pending receive(at::Tensor& tensor, int source, int tag, const Call&) override {
    check_tag(tag);
    return inbox_.receive(comm_->get(), as_bytes(tensor), source, tag, look_for({source}));
  }

  Pending barrier(const Call&) override {
    const auto requests = requests_with({});
    check(MPI_Ibarrier(comm_->get(), requests->add()), "MPI_Ibarrier");
    return collective(requests);
  }

  std::vector<std::string> exchange(const std::string& fingerprint, const Call&) override {
    const auto length = static_cast<std::int64_t>(fingerprint.size());
    const auto options = at::TensorOptions().dtype(at::kByte);
    const auto mine = at::empty({length}, options);
    const auto all = at::empty({size_ * length}, options);
    fingerprint.copy(static_cast<char*>(mine.data_ptr()), fingerprint.size());
    const auto requests = requests_with({mine, all});
    const auto count = static_cast<int>(length);
    check(MPI_Iallgather(mine.data_ptr(), count, MPI_BYTE, all.data_ptr(), count, MPI_BYTE, comm_->get(),
                         requests->add()),
          "MPI_Iallgather");
    wait_in(progress_, *collective(requests), *this, timeout_);

    std::vector<std::string> texts;
    const auto* text = static_cast<const char*>(all.data_ptr());
    for (int rank = 0; rank < size_; ++rank) texts.emplace_back(text + rank * length, fingerprint.size());
    return texts;
  }

  bool is_unfinished() const noexcept override { return mpi::any_under_way(); }
  Progressed advance() noexcept override {
    const bool moved = mpi::advance_all();
    return {.unfinished = mpi::any_under_way(), .moved = moved};
  }
  // All groups of the process share the list of pending MPI operations.
  bool advances(const Backend& other) const noexcept override { return other.name() == name(); }

  // MPI can only end the whole job, which the launcher does; waiting ranks meanwhile check the store for failures.
  void abort() noexcept override { mpi::never_finalize(); }

 private:
  static std::int64_t bytes_of(const at::Tensor& tensor) {
    return tensor.numel() * static_cast<std::int64_t>(tensor.element_size());
  }

  std::function<void()> look_for(std::vector<int> ranks) const {
    return [look = throw_if_lost_, ranks = std::move(ranks)] { look(ranks); };
  }

  std::shared_ptr<Requests> requests_with(std::vector<at::Tensor> tensors) const {
    return std::make_shared<Requests>(std::move(tensors), comm_);
  }

  Pending collective(std::shared_ptr<Requests> requests) const {
    return mpi::start(std::move(requests), look_for(others_));
  }

  void check_tag(int tag) const {
    if (tag <= comm_->tag_limit()) return;
    fail(ErrorKind::unsupported, "mpi", "this MPI has no tag {}; its largest is {}", tag, comm_->tag_limit());
  }

  std::shared_ptr<const mpi::Communicator> comm_;
  mpi::MpiReducer reducer_;
  std::chrono::milliseconds timeout_;
  Progress* progress_;
  std::function<void(const std::vector<int>&)> throw_if_lost_;
  std::vector<int> others_;
  mpi::Inbox inbox_;
};

}  // namespace

std::unique_ptr<Backend> make_mpi_backend(const BackendContext& context) {
  return std::make_unique<MpiBackend>(context);
}

}  // namespace lockstep::detail
