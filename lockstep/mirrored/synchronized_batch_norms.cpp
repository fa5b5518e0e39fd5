#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/kernels/batch_norm.h>
#include <lockstep/mirrored/synchronized_batch_norms.h>

#include <ATen/NativeFunctions.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace lockstep::mirrored {
namespace {

/// What one batch norm of a module needs to ask the other ranks.
class Meeting : public torch::CustomClassHolder {
 public:
  explicit Meeting(Group group) : group_(std::move(group)) {}

  /// [ranks, n] from each rank's [n].
  at::Tensor gather(const at::Tensor& mine) {
    const auto& group = group_of(gathered_);
    return all_gather(mine, group).view({group.size(), mine.numel()});
  }

  void sum(at::Tensor& mine) { all_reduce(mine, group_of(summed_)); }

 private:
  // Sizes never change: they are compared once, if the group compares.
  const Group& group_of(bool& compared) { return std::exchange(compared, true) ? unchecked_ : group_; }

  Group group_;
  Group unchecked_ = group_.unchecked();
  bool gathered_ = false;
  bool summed_ = false;
};

using MeetingPointer = c10::intrusive_ptr<Meeting>;

struct Meetings {
  std::shared_mutex mutex;
  std::unordered_map<const c10::TensorImpl*, MeetingPointer> by_tensor;
  std::atomic<std::size_t> count{0};  ///< of the above, so that who has none need not lock
};

Meetings& meetings() {
  static Meetings all;
  return all;
}

MeetingPointer find_meeting(const at::Tensor& running_mean, const at::Tensor& weight) {
  auto& all = meetings();
  if (all.count == 0) return {};
  const auto& known_by = running_mean.defined() ? running_mean : weight;
  const std::shared_lock lock(all.mutex);
  const auto found = all.by_tensor.find(known_by.unsafeGetTensorImpl());
  return found == all.by_tensor.end() ? MeetingPointer() : found->second;
}

/// What autograd does not look at.
struct Normalization {
  at::Tensor running_mean;
  at::Tensor running_var;
  double momentum;
  double eps;
  MeetingPointer meeting;
};

using OptionalTensor = c10::optional<at::Tensor>;

at::Tensor or_undefined(const OptionalTensor& tensor) { return tensor.value_or(at::Tensor()); }

class BatchNorm : public torch::autograd::Function<BatchNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const OptionalTensor& weight, const OptionalTensor& bias, const Normalization& options) {
    const auto moments = kernels::joined_moments(options.meeting->gather(kernels::moments_of(input)));
    const auto [mean, inverse_deviation, sample_variance] = kernels::statistics_from(moments, options.eps);
    kernels::update_running(options.running_mean, mean, options.momentum);
    kernels::update_running(options.running_var, sample_variance, options.momentum);
    context->save_for_backward({input, or_undefined(weight), mean, inverse_deviation});
    context->saved_data["values"] = *moments.data_ptr<double>();
    context->saved_data["meeting"] = c10::IValue::make_capsule(options.meeting);
    return kernels::normalized(input, or_undefined(weight), or_undefined(bias), mean, inverse_deviation);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    if (at::GradMode::is_enabled()) {
      fail(ErrorKind::unsupported, "data_parallel",
           "gradients of synchronized batch norms cannot be differentiated again (create_graph)");
    }
    const auto saved = context->get_saved_variables();
    const auto& input = saved[0];
    const auto& weight = saved[1];
    const auto& mean = saved[2];
    const auto& inverse_deviation = saved[3];
    const auto values = context->saved_data["values"].toDouble();
    const auto meeting = c10::static_intrusive_pointer_cast<Meeting>(context->saved_data["meeting"].toCapsule());

    auto sums = kernels::gradient_sums(gradients[0], input, mean, inverse_deviation);
    torch::autograd::variable_list found(4);
    if (weight.defined()) {  // of this rank's pictures alone, as the gradients of other parameters
      const auto mine = sums.to(weight.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
      found[1] = mine[0];
      found[2] = mine[1];
    }
    meeting->sum(sums);
    found[0] = kernels::gradient_of_input(gradients[0], input, weight, mean, inverse_deviation, sums, values);
    return found;
  }
};

at::Tensor batch_norm(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                      const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training,
                      double momentum, double eps, bool cudnn_enabled) {
  if (training) {
    if (auto meeting = find_meeting(or_undefined(running_mean), or_undefined(weight))) {
      return BatchNorm::apply(
          input, weight, bias,
          Normalization{or_undefined(running_mean), or_undefined(running_var), momentum, eps, std::move(meeting)});
    }
  }
  return at::native::batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled);
}

// libtorch composes batch_norm of other operators on every device; this comes before that. When the library is loaded,
// because the dispatcher must not change while another thread uses it.
TORCH_LIBRARY_IMPL(aten, AutogradCPU, library) { library.impl("batch_norm", TORCH_FN(batch_norm)); }

/// The running mean, or else the weight; nothing for what is not a batch norm. May be undefined.
std::optional<at::Tensor> known_by(const torch::nn::Module& module) {
  const auto of = [](const auto* norm) -> std::optional<at::Tensor> {
    if (norm == nullptr) return std::nullopt;
    return norm->running_mean.defined() ? norm->running_mean : norm->weight;
  };
  if (auto found = of(module.as<torch::nn::BatchNorm2d>())) return found;
  if (auto found = of(module.as<torch::nn::BatchNorm1d>())) return found;
  return of(module.as<torch::nn::BatchNorm3d>());
}

void require_usable(const at::Tensor& tensor, const std::string& name) {
  if (!tensor.defined()) {
    fail(ErrorKind::unsupported, "data_parallel",
         "batch norm \"{}\" has neither a weight nor running statistics, so it cannot be synchronized; give it "
         "affine(true) or track_running_stats(true)",
         name);
  }
  if (!tensor.device().is_cpu()) {
    fail(ErrorKind::unsupported, "data_parallel", "batch norm \"{}\" is on {}; those on the CPU can be synchronized",
         name, tensor.device().str());
  }
}

}  // namespace

SynchronizedBatchNorms::SynchronizedBatchNorms(const torch::nn::Module& module, const Group& group) {
  const auto own = group.subgroup(group.ranks());
  auto& all = meetings();
  for (const auto& item : module.named_modules()) {
    const auto tensor = known_by(*item.value());
    if (!tensor) continue;
    require_usable(*tensor, item.key());
    known_by_.push_back(*tensor);
    for (const auto& buffer : item.value()->buffers(/*recurse=*/false)) buffers_.push_back(buffer);
  }
  const std::unique_lock lock(all.mutex);
  for (const auto& tensor : known_by_) {
    if (all.by_tensor.contains(tensor.unsafeGetTensorImpl())) {
      known_by_.clear();
      fail(ErrorKind::invalid_argument, "data_parallel",
           "a batch norm of this module is synchronized by another DataParallel already");
    }
  }
  for (const auto& tensor : known_by_) {
    all.by_tensor.emplace(tensor.unsafeGetTensorImpl(), c10::make_intrusive<Meeting>(*own));
  }
  all.count = all.by_tensor.size();
}

SynchronizedBatchNorms::~SynchronizedBatchNorms() {
  auto& all = meetings();
  const std::unique_lock lock(all.mutex);
  for (const auto& tensor : known_by_) all.by_tensor.erase(tensor.unsafeGetTensorImpl());
  all.count = all.by_tensor.size();
}

bool SynchronizedBatchNorms::covers(const at::Tensor& buffer) const {
  return std::any_of(buffers_.begin(), buffers_.end(), [&](const auto& each) { return each.is_same(buffer); });
}

}  // namespace lockstep::mirrored
