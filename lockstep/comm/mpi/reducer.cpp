// A reduction as MPI messages: at most two of its exchanges are pending at a time.
#include <lockstep/comm/mpi/progress.h>
#include <lockstep/comm/mpi/reducer.h>

#include <array>
#include <utility>

namespace lockstep::detail::mpi {
namespace {

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

}  // namespace

MpiReducer::MpiReducer(const BackendContext& context) : comm_(communicator_for(context)) {}

Backend::Pending MpiReducer::start(NetworkCall call, std::vector<at::Tensor> kept, std::function<void()> look_around) {
  auto reduction = std::make_shared<MpiReduction>(std::move(call), std::move(kept), comm_, next_tag_);
  constexpr int kLeastLimit = 32767;  // of tags, which every MPI has
  next_tag_ = (next_tag_ + 1) % kLeastLimit;
  return mpi::start(std::move(reduction), std::move(look_around));
}

}  // namespace lockstep::detail::mpi
