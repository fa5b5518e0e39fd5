// The gloo backend, through c10d::ProcessGroupGloo: TCP between all pairs of ranks, two threads for collectives.
#include <lockstep/base/error.h>
#include <lockstep/comm/backend_context.h>
#include <lockstep/comm/carrier.h>
#include <lockstep/comm/gloo/closable_gloo.h>
#include <lockstep/comm/gloo/meeting.h>
#include <lockstep/comm/gloo/messenger.h>
#include <lockstep/comm/gloo/states.h>
#include <lockstep/comm/work_states.h>

#include <utility>

namespace lockstep::detail {
namespace {

bool native(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
    case at::kDouble:
    case at::kByte:
    case at::kChar:
    case at::kInt:
    case at::kLong: return true;
    default: return false;
  }
}

c10d::ReduceOp c10d_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::min: return c10d::ReduceOp::MIN;
    case ReduceOp::max: return c10d::ReduceOp::MAX;
    case ReduceOp::product: return c10d::ReduceOp::PRODUCT;
    default: return c10d::ReduceOp::SUM;
  }
}

class GlooBackend : public Backend {
 public:
  explicit GlooBackend(const BackendContext& context)
      : size_(context.size), rank_(context.rank), group_(gloo::meet(context)) {
    group_->set_timeout(context.timeout);
    messenger_ = std::make_unique<gloo::Messenger>(*group_, context.timeout);
  }

  ~GlooBackend() override {
    if (messenger_->busy()) group_->close();
  }

  std::string_view name() const override { return "gloo"; }

  Pending all_reduce(at::Tensor& tensor, ReduceOp op, const Call&) override {
    auto carried = tensor.to(carrier_dtype(tensor.scalar_type(), native));
    return reduce_into(tensor, carried, op);
  }

  Pending reduce(at::Tensor& tensor, int root, ReduceOp op, const Call&) override {
    // Gloo uses the tensors of the other ranks as scratch space.
    auto carried = tensor.to(carrier_dtype(tensor.scalar_type(), native), false, /*copy=*/rank_ != root);
    c10d::ReduceOptions options;
    options.reduceOp = c10d_op(carrier_op(tensor.scalar_type(), op));
    options.rootRank = root;
    std::vector<at::Tensor> tensors = {carried};
    auto pending = watch(group_->reduce(tensors, options));
    if (rank_ != root) return pending;
    return then(std::move(pending), [=, this]() mutable { deliver(tensor, carried, op, size_); });
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

  Pending reduce_scatter(at::Tensor& output, const at::Tensor& input, ReduceOp op, const Call&) override {
    // This Gloo has no reduce_scatter of its own: a whole all_reduce on a copy, of which this rank keeps its part.
    auto carried = input.to(carrier_dtype(input.scalar_type(), native), false, /*copy=*/true);
    const auto rows = carried.size(0) / size_;
    auto mine = carried.narrow(0, rank_ * rows, rows);
    std::vector<at::Tensor> tensors = {carried};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d_op(carrier_op(input.scalar_type(), op));
    return then(watch(group_->allreduce(tensors, options)),
                [=, this]() mutable { deliver(output, mine.view(output.sizes()), op, size_); });
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

  void abort() noexcept override { group_->close(); }

 private:
  Pending watch(c10::intrusive_ptr<c10d::Work> work) { return gloo::pending(std::move(work)); }

  Pending reduce_into(at::Tensor& result, at::Tensor carried, ReduceOp op) {
    c10d::AllreduceOptions options;
    options.reduceOp = c10d_op(carrier_op(result.scalar_type(), op));
    std::vector<at::Tensor> tensors = {carried};
    return then(watch(group_->allreduce(tensors, options)),
                [=, this]() mutable { deliver(result, carried, op, size_); });
  }

  // The parts of a contiguous tensor that belong to each rank, as bytes.
  std::vector<at::Tensor> slices(const at::Tensor& tensor) const { return as_bytes(tensor).chunk(size_); }

  int size_;
  int rank_;
  c10::intrusive_ptr<gloo::ClosableGloo> group_;
  std::unique_ptr<gloo::Messenger> messenger_;
};

}  // namespace

std::unique_ptr<Backend> make_gloo_backend(const BackendContext& context) {
  return std::make_unique<GlooBackend>(context);
}

}  // namespace lockstep::detail
