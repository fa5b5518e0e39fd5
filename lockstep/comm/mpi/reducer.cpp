#include <lockstep/base/error.h>
#include <lockstep/comm/mpi/progress.h>
#include <lockstep/comm/mpi/reducer.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <utility>

namespace lockstep::detail::mpi {
namespace {

using std::chrono::milliseconds;

/// A reduction under way.
class Operation {
 public:
  Operation(NetworkCall call, std::vector<at::Tensor> kept, std::shared_ptr<const Communicator> comm, int tag)
      : reduction_(std::make_shared<NetworkReduction>(std::move(call))),
        kept_(std::move(kept)),
        comm_(std::move(comm)),
        tag_(tag) {}

  bool done() const { return done_; }

  /// After it is done: what went wrong, if anything.
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const auto& tensor : kept_) sum += tensor.defined() ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
    return 2 * sum;
  }

  void advance() {
    try {
      done_ = advance_messages();
    } catch (...) {
      error_ = std::current_exception();
      done_ = true;
    }
  }

 private:
  bool advance_messages() {
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

  void post(int k) {
    // The reduction too: messages arrive in memory that it owns.
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
  std::atomic<bool> done_{false};
  std::exception_ptr error_;
};

/// Of all groups: MPI's own collectives go on, too, whenever the process calls MPI for whatever reason.
struct UnderWay {
  std::mutex mutex;
  std::vector<std::shared_ptr<Operation>> operations;  // in the order of their calls
};

UnderWay& under_way() {
  static UnderWay all;
  return all;
}

class ReductionState : public WorkState {
 public:
  ReductionState(std::shared_ptr<Operation> operation, std::function<void()> look_around)
      : operation_(std::move(operation)), look_around_(std::move(look_around)) {}

  void wait(milliseconds timeout) override {
    if (!poll([this] { return operation_->done(); }, operation_->bytes(), timeout, look_around_)) {
      throw Error(ErrorKind::timeout, "mpi", "not complete");
    }
    operation_->rethrow();
  }

  bool test() override {
    advance_reductions();
    return operation_->done();
  }

 private:
  std::shared_ptr<Operation> operation_;
  std::function<void()> look_around_;
};

std::shared_ptr<const Communicator> communicator_for(BackendContext context) {
  context.name += "/reductions";
  return std::make_shared<Communicator>(context);
}

}  // namespace

Reducer::Reducer(const BackendContext& context) : comm_(communicator_for(context)) {}

Backend::Pending Reducer::start(NetworkCall call, std::vector<at::Tensor> kept, std::function<void()> look_around) {
  const auto operation = std::make_shared<Operation>(std::move(call), std::move(kept), comm_, next_tag_);
  constexpr int kLeastLimit = 32767;  // of tags, which every MPI has
  next_tag_ = (next_tag_ + 1) % kLeastLimit;
  {
    const std::lock_guard lock(under_way().mutex);
    under_way().operations.push_back(operation);
  }
  advance_reductions();
  return std::make_shared<ReductionState>(operation, std::move(look_around));
}

void advance_reductions() {
  const std::unique_lock lock(under_way().mutex, std::try_to_lock);
  if (!lock) return;  // another thread is at it
  auto& operations = under_way().operations;
  for (const auto& operation : operations) operation->advance();
  std::erase_if(operations, [](const auto& operation) { return operation->done(); });
}

}  // namespace lockstep::detail::mpi
