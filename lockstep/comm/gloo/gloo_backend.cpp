// The gloo backend, through c10d::ProcessGroupGloo: TCP between all pairs of ranks, two threads for collectives that
// move bytes and two for those that reduce them.
#include <lockstep/base/error.h>
#include <lockstep/comm/backend.h>
#include <lockstep/comm/gloo/closable_gloo.h>
#include <lockstep/comm/gloo/messenger.h>
#include <lockstep/comm/gloo/reducer.h>
#include <lockstep/comm/gloo/rendezvous.h>
#include <lockstep/comm/gloo/states.h>
#include <lockstep/comm/tensor_reduction.h>

#include <utility>

namespace lockstep::detail {
namespace {

class GlooBackend : public NetworkBackend {
 public:
  explicit GlooBackend(const BackendContext& context)
      : NetworkBackend(context.rank, context.size),
        check_others_(
            [check = context.throw_if_lost, others = others_of(context.rank, context.size)] { check(others); }),
        check_failures_(context.throw_if_failed),
        progress_(context.progress),
        group_(gloo::meet(context)) {
    group_->set_timeout(context.timeout);
    messenger_ = std::make_unique<gloo::Messenger>(*group_, context.timeout);
    reducer_ = std::make_unique<gloo::Reducer>(*group_);
  }

  ~GlooBackend() override {
    if (messenger_->busy() || reducer_->busy()) GlooBackend::abort();
  }

  std::string_view name() const override { return "gloo"; }

  Pending combine(ResultOf kind, const at::Tensor& output, const at::Tensor& input,
                  const std::vector<std::vector<RankRange>>& brought, int root, ReduceOp op, const Call&) override {
    auto work = reducer_->start(network_call(kind, rank_, root, brought, input, output, op), {output, input});
    return gloo::watched(std::move(work), kind == ResultOf::reduce ? check_failures_ : check_others_);
  }

  Pending broadcast(at::Tensor& tensor, int root, const Call&) override {
    c10d::BroadcastOptions options;
    options.rootRank = root;
    std::vector<at::Tensor> tensors = {as_bytes(tensor)};
    return from_one(group_->broadcast(tensors, options));
  }

  Pending all_gather(at::Tensor& output, const at::Tensor& input, const Call&) override {
    std::vector<std::vector<at::Tensor>> outputs = {slices(output)};
    std::vector<at::Tensor> inputs = {as_bytes(input)};
    return from_all(group_->allgather(outputs, inputs));
  }

  Pending all_to_all(at::Tensor& output, const at::Tensor& input, const Call&) override {
    auto to = as_bytes(output);
    auto from = as_bytes(input);
    std::vector<std::int64_t> even;  // empty: equal parts
    return from_all(group_->alltoall_base(to, from, even, even));
  }

  Pending gather(at::Tensor* output, const at::Tensor& input, int root, const Call&) override {
    c10d::GatherOptions options;
    options.rootRank = root;
    std::vector<std::vector<at::Tensor>> outputs;
    if (output != nullptr) outputs.push_back(slices(*output));
    std::vector<at::Tensor> inputs = {as_bytes(input)};
    return from_one(group_->gather(outputs, inputs, options));
  }

  Pending scatter(at::Tensor& output, const at::Tensor* input, int root, const Call&) override {
    c10d::ScatterOptions options;
    options.rootRank = root;
    std::vector<std::vector<at::Tensor>> inputs;
    if (input != nullptr) inputs.push_back(slices(*input));
    std::vector<at::Tensor> outputs = {as_bytes(output)};
    return from_one(group_->scatter(outputs, inputs, options));
  }

  Pending send(const at::Tensor& tensor, int destination, int tag, const Call&) override {
    return gloo::watched(messenger_->send(as_bytes(tensor), destination, tag), check_failures_);
  }

  Pending receive(at::Tensor& tensor, int source, int tag, const Call&) override {
    return gloo::watched(messenger_->receive(as_bytes(tensor), source, tag), check_failures_);
  }

  Pending barrier(const Call&) override { return from_all(group_->barrier()); }

  std::vector<std::string> exchange(const std::string& fingerprint, const Call&) override {
    try {
      const auto exchange = [&] { return group_->exchange(fingerprint); };
      return progress_ ? progress_->run_beside(*this, exchange) : exchange();
    } catch (const std::exception& error) {
      throw gloo::as_error(error);
    }
  }

  void abort() noexcept override {
    group_->close();
    messenger_->stop();
  }

 private:
  // Every rank needs a part of every other rank, so no rank can have ended normally before all ranks have all parts.
  Pending from_all(c10::intrusive_ptr<c10d::Work> work) const {
    return gloo::watched(gloo::pending(std::move(work)), check_others_);
  }
  // A rank may have completed its part and ended.
  Pending from_one(c10::intrusive_ptr<c10d::Work> work) const {
    return gloo::watched(gloo::pending(std::move(work)), check_failures_);
  }

  // The parts of a contiguous tensor that belong to each rank, as bytes.
  std::vector<at::Tensor> slices(const at::Tensor& tensor) const { return as_bytes(tensor).chunk(size_); }

  const std::function<void()> check_others_;
  const std::function<void()> check_failures_;
  Progress* const progress_;
  c10::intrusive_ptr<gloo::ClosableGloo> group_;
  std::unique_ptr<gloo::Messenger> messenger_;
  std::unique_ptr<gloo::Reducer> reducer_;
};

}  // namespace

std::unique_ptr<Backend> make_gloo_backend(const BackendContext& context) {
  return std::make_unique<GlooBackend>(context);
}

}  // namespace lockstep::detail
