// The forward pass: batch to device and placement, autocast, the task's outcome, a loss made from sums of all ranks.
// And a walk over the autograd graph of a loss for leaves that are not parameters of the module.
#include <lockstep/base/error.h>
#include <lockstep/compat/libtorch.h>
#include <lockstep/global/dispatch/kernels.h>
#include <lockstep/kernels/tuning.h>
#include <lockstep/state/tensors.h>
#include <lockstep/train/modes/forward.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/torch.h>

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace lockstep::train {
namespace {

/// The tensors at the ends of the loss's graph, which get gradients.
std::vector<at::Tensor> leaves_of(const at::Tensor& loss) {
  std::vector<at::Tensor> leaves;
  std::vector<torch::autograd::Node*> open{loss.grad_fn().get()};
  std::unordered_set<torch::autograd::Node*> seen;
  while (!open.empty()) {
    auto* node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    if (const auto* end = dynamic_cast<torch::autograd::AccumulateGrad*>(node)) leaves.push_back(end->variable);
    for (const auto& edge : node->next_edges()) open.push_back(edge.function.get());
  }
  return leaves;
}

// Converts a tensor to the run's memory format, device and placement.
samples::Batch prepare(samples::Batch batch, const ForwardOptions& options) {
  for (auto& [name, tensor] : batch.tensors) {
    if (options.channels_last && tensor.dim() == 4 && tensor.is_floating_point()) tensor = to_channels_last(tensor);
    tensor = tensor.to(options.device);
    if (options.place) tensor = options.place(name, tensor);
  }
  for (auto& [name, list] : batch.lists) {
    for (auto& tensor : list) tensor = tensor.to(options.device);
  }
  if (options.place && !batch.tensors.empty()) batch.count = batch.tensors.begin()->second.size(0);
  return batch;
}

void require_scalar(const at::Tensor& loss) {
  if (loss.defined() && loss.numel() == 1) return;
  fail(ErrorKind::invalid_argument, "train", "the task's loss has to be a tensor of one element, it {}",
       loss.defined() ? fmt::format("has the shape [{}]; take its mean()", fmt::join(loss.sizes(), ", "))
                      : "is undefined");
}

// Without this check, the error of backward would name only "element 0 of tensors".
void require_gradient(const at::Tensor& loss) {
  if (loss.requires_grad()) return;
  fail(ErrorKind::invalid_argument, "train",
       "the task's loss does not depend on any weight that is trained, so there is no gradient; compute it from the "
       "model's output by operators of libtorch, without detach(), item() or torch::NoGradGuard");
}

std::string describe(const samples::Batch& batch) {
  std::vector<std::string> fields;
  for (const auto& [name, tensor] : batch.tensors) {
    fields.push_back(name + " " + state::dtype_and_sizes(tensor));
  }
  return fmt::format("{}", fmt::join(fields, ", "));
}

/// The loss from the sums of all ranks, where autograd can follow only this rank's own part.
at::Tensor loss_of_all(const Model& model, const at::Tensor& own, double samples, const ForwardOptions& options) {
  if (!options.add_over_ranks) return model.task->loss_of(own);
  const auto known = own.detach();
  const auto all = options.add_over_ranks(torch::cat({known, torch::full({1}, samples, known.options())}));
  const auto loss = model.task->loss_of(own + (all.narrow(0, 0, own.size(0)) - known));
  const double share = samples / all[-1].item<double>();
  return loss.detach() + (loss - loss.detach()) / share;
}

void require_loss_sums(const Model& model, const at::Tensor& sums) {
  const auto count = model.task->loss_sums();
  if (sums.dim() == 1 && sums.size(0) == count && sums.scalar_type() == torch::kDouble) return;
  fail(ErrorKind::invalid_argument, "train",
       "the task's Outcome::loss_sums has to be float64 [{}], as Task::loss_sums gives, and is {} [{}]", count,
       c10::toString(sums.scalar_type()), fmt::join(sums.sizes(), ", "));
}

// An error of libtorch has no information about the data.
Outcome outcome_of(const Model& model, const samples::Batch& batch, bool measures) {
  try {
    return model.task->run(*model.module, batch, measures);
  } catch (c10::Error& error) {
    error.add_context(fmt::format("in the forward pass and loss of a batch of {}", describe(batch)));
    throw;
  }
}

}  // namespace

std::optional<at::ScalarType> autocast_dtype(std::string_view name, bool on_cuda) {
  if (name == "bfloat16") return at::kBFloat16;
  if (name == "O2" || name == "O3") return on_cuda ? at::kHalf : at::kBFloat16;
  if (name != "float16") return std::nullopt;
  if (!on_cuda && !compat::kHalfOnCpu) {
    fail(ErrorKind::config, "model.autocast",
         "float16 needs CUDA with this libtorch, which has no products of float16 matrices on a CPU; use bfloat16, or "
         "O2, which is float16 on CUDA and bfloat16 on a CPU");
  }
  return at::kHalf;
}

Autocast::Autocast(std::optional<at::ScalarType> dtype, bool on_cuda) : dtype_(dtype), on_cuda_(on_cuda) {
  if (!dtype_) return;
  compat::set_autocast(*dtype_, on_cuda_, true);
  global::set_autocast(dtype_);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (!dtype_) return;
  // The cache holds the 16-bit copies of this forward's weights; the next forward must not see them.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  global::set_autocast(std::nullopt);
  compat::set_autocast(*dtype_, on_cuda_, false);
}

std::string describe_stray_tensors(const at::Tensor& loss, const torch::nn::Module& module, std::int64_t samples) {
  constexpr std::size_t kShown = 5;
  std::unordered_set<const c10::TensorImpl*> known;
  for (const auto& parameter : module.parameters()) known.insert(parameter.unsafeGetTensorImpl());
  std::vector<std::string> strays;
  std::size_t count = 0;
  for (const auto& leaf : leaves_of(loss)) {
    if (known.contains(leaf.unsafeGetTensorImpl()) || (leaf.dim() > 0 && leaf.size(0) == samples)) continue;
    if (++count <= kShown) strays.push_back(state::dtype_and_sizes(leaf));
  }
  if (count > kShown) strays.emplace_back("...");
  const auto words = fmt::format(
      "the loss has gradients for {} {} that {} of the model: {}. Register layers with register_module(), and tensors "
      "with register_parameter(), in the constructor of the module",
      count, count == 1 ? "tensor" : "tensors", count == 1 ? "is no parameter" : "are no parameters",
      fmt::join(strays, ", "));
  if (known.empty()) {
    fail(ErrorKind::invalid_argument, "train", "the model has no parameters, so there is nothing to train{}{}",
         count > 0 ? ": " : "", count > 0 ? words : "");
  }
  return count > 0 ? words : "";
}

ForwardOptions forward_options(const ResolvedRun& config, const c10::Device& device) {
  return {config.model.channels_last, autocast_dtype(config.model.autocast, device.is_cuda()), device};
}

Forwarded forward(const Model& model, samples::Batch batch, const ForwardOptions& options, bool measures) {
  const auto prepared = prepare(std::move(batch), options);
  const Autocast autocast(options.autocast, options.device.is_cuda());
  Forwarded forwarded{.outcome = outcome_of(model, prepared, measures), .samples = static_cast<double>(prepared.count)};
  auto& outcome = forwarded.outcome;
  if (outcome.loss_sums.defined()) {
    require_loss_sums(model, outcome.loss_sums);
    outcome.loss = measures ? model.task->loss_of(outcome.loss_sums)
                            : loss_of_all(model, outcome.loss_sums, forwarded.samples, options);
    outcome.items.reset();
  }
  require_scalar(outcome.loss);
  if (at::GradMode::is_enabled()) require_gradient(forwarded.outcome.loss);
  forwarded.items = forwarded.outcome.items.value_or(forwarded.samples);
  return forwarded;
}

void add_no_loss_sums(const Model& model, const ForwardOptions& options) {
  const auto count = model.task->loss_sums();
  if (count > 0 && options.add_over_ranks) options.add_over_ranks(torch::zeros({count + 1}, torch::kDouble));
}

at::Tensor forward_nothing(const Model& model, samples::Batch batch, const ForwardOptions& options) {
  const auto prepared = prepare(std::move(batch), options);
  const Autocast autocast(options.autocast, options.device.is_cuda());
  return model.task->nothing(*model.module, prepared);
}

Prediction predict(const Model& model, samples::Batch batch, const ForwardOptions& options) {
  const auto prepared = prepare(std::move(batch), options);
  const Autocast autocast(options.autocast, options.device.is_cuda());
  return model.task->predict(*model.module, prepared);
}

}  // namespace lockstep::train
