// The gloo backend, through c10d::ProcessGroupGloo: TCP between all pairs of ranks, two threads for collectives that
// move bytes and two for those that reduce them.
#include <lockstep/base/error.h>
#include <lockstep/comm/backend.h>
#include <lockstep/comm/gloo/closable_gloo.h>
#include <lockstep/comm/gloo/meeting.h>
#include <lockstep/comm/gloo/messenger.h>
#include <lockstep/comm/gloo/reducer.h>
#include <lockstep/comm/gloo/states.h>
#include <lockstep/comm/tensor_reduction.h>

#include <utility>

namespace lockstep::detail {
namespace {

class GlooBackend : public NetworkBackend {
 public:
  explicit GlooBackend(const BackendContext& context)
      : NetworkBackend(context.rank, context.size), group_(gloo::meet(context)) {
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
    return reducer_->start(network_call(kind, rank_, root, brought, input, output, op), {output, input});
  }

  Pending broadcast(at::Tensor& tensor, int root, const Call&) override {
    c10d::BroadcastOptions options;
    options.rootRank = root;
    std::vector<at::Tensor> tensors = {as_bytes(tensor)};
    return watch(group_->broadcast(tensors, options));
  }

  Pending all_gather(at::Tensor& output, const at::Tensor& input, const Call&) override {
    std::vector<std::vector<at::Tensor>> outputs = {slices(output)};
    std::vector<at::Tensor> inputs = {as_bytes(input)};
    return watch(group_->allgather(outputs, inputs));
  }

  Pending all_to_all(at::Tensor& output, const at::Tensor& input, const Call&) override {
    auto to = as_bytes(output);
    auto from = as_bytes(input);
    std::vector<std::int64_t> even;  // empty: equal parts
    return watch(group_->alltoall_base(to, from, even, even));
  }

  Pending gather(at::Tensor* output, const at::Tensor& input, int root, const Call&) override {
    c10d::GatherOptions options;
    options.rootRank = root;
    std::vector<std::vector<at::Tensor>> outputs;
    if (output != nullptr) outputs.push_back(slices(*output));
    std::vector<at::Tensor> inputs = {as_bytes(input)};
    return watch(group_->gather(outputs, inputs, options));
  }

  Pending scatter(at::Tensor& output, const at::Tensor* input, int root, const Call&) override {
    c10d::ScatterOptions options;
    options.rootRank = root;
    std::vector<std::vector<at::Tensor>> inputs;
    if (input != nullptr) inputs.push_back(slices(*input));
    std::vector<at::Tensor> outputs = {as_bytes(output)};
    return watch(group_->scatter(outputs, inputs, options));
  }

  Pending send(const at::Tensor& tensor, int destination, int tag, const Call&) override {
    return messenger_->send(as_bytes(tensor), destination, tag);
  }

  Pending receive(at::Tensor& tensor, int source, int tag, const Call&) override {
    return messenger_->receive(as_bytes(tensor), source, tag);
  }

  Pending barrier(const Call&) override { return watch(group_->barrier()); }

  std::vector<std::string> exchange(const std::string& fingerprint, const Call&) override {
    try {
      return group_->exchange(fingerprint);
    } catch (const std::exception& error) {
      throw gloo::as_error(error);
    }
  }

  void abort() noexcept override {
    group_->close();
    messenger_->stop();
  }

 private:
  Pending watch(c10::intrusive_ptr<c10d::Work> work) { return gloo::pending(std::move(work)); }

  // The parts of a contiguous tensor that belong to each rank, as bytes.
  std::vector<at::Tensor> slices(const at::Tensor& tensor) const { return as_bytes(tensor).chunk(size_); }

  c10::intrusive_ptr<gloo::ClosableGloo> group_;
  std::unique_ptr<gloo::Messenger> messenger_;
  std::unique_ptr<gloo::Reducer> reducer_;
};

}  // namespace

std::unique_ptr<Backend> make_gloo_backend(const BackendContext& context) {
  return std::make_unique<GlooBackend>(context);
}

}  // namespace lockstep::detail
