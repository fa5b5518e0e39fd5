// The forward pass of a batch, the same in training and evaluation; mixed precision in it; the check of a first loss;
// and the evaluation of a model over a whole split.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/train/callback.h>
#include <lockstep/train/resolved_run.h>
#include <lockstep/train/task.h>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace torch::nn {
class Module;
}

namespace lockstep::train {

/// The dtype of convolutions and matrix products for a value of model.autocast; nullopt: the dtype of the tensors.
/// Error(config) for float16 on a CPU where this libtorch has no such products.
std::optional<at::ScalarType> autocast_dtype(std::string_view name, bool on_cuda);

/// While it exists, matrix products and convolutions on the CPU (or CUDA) and of global tensors run in `dtype`;
/// parameters stay float32. Does nothing without a dtype. Scopes do not nest. Use it only around forward passes:
/// backward uses the dtypes that forward recorded.
class Autocast {
 public:
  Autocast(std::optional<at::ScalarType> dtype, bool on_cuda);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  std::optional<at::ScalarType> dtype_;
  bool on_cuda_;
};

/// Tensors for which a loss has gradients, but which are not parameters of the model, so that they are not trained: a
/// description for users, with shapes; empty: there are none. Tensors whose first size is `samples` are treated as
/// inputs, whose gradients a loss may use. Error(invalid_argument) if the module has no parameters.
std::string describe_stray_tensors(const at::Tensor& loss, const torch::nn::Module& module, std::int64_t samples);

/// The module that a run trains, and its task.
struct Model {
  std::shared_ptr<torch::nn::Module> module;
  std::shared_ptr<Task> task;
};

/// Whether an evaluation is a result, or only a trial whether the model can be evaluated.
enum class EvaluationPurpose { result, trial };

struct ForwardOptions {
  bool channels_last = false;
  std::optional<at::ScalarType> autocast = std::nullopt;  ///< dtype of convolutions and matrix products
  c10::Device device{c10::DeviceType::CPU};
  /// Applied to each tensor of a batch, with its name, when given.
  std::function<at::Tensor(const std::string& name, const at::Tensor&)> place{};
  /// The sums of a tensor, float64 [K], over the ranks with shares of a batch; empty: there is one share.
  std::function<at::Tensor(const at::Tensor&)> add_over_ranks{};
};

/// Error(config) for model.autocast float16 where this libtorch cannot compute in it.
ForwardOptions forward_options(const ResolvedRun& config, const c10::Device& device);

/// The result of one forward pass, with its number of samples and items.
struct Forwarded {
  Outcome outcome;
  double samples = 0;
  double items = 0;  ///< outcome.items, or else the samples; for a loss of sums, the samples
};

/// In training, a loss of sums (Task::loss_sums) is the loss over all ranks' samples: the call is then a collective.
/// The mean of its gradients over ranks, weighted with their samples, is the gradient of that loss.
///
/// The batch must not be empty, unless options.place joins the batches of several ranks into one.
/// Error(invalid_argument) when the task's loss is not a scalar.
Forwarded forward(const Model& model, samples::Batch batch, const ForwardOptions& options, bool measures);

/// This rank's part in the sums of Task::loss_sums, if its batch of a step is empty. A collective with the forward
/// passes of other ranks.
void add_no_loss_sums(const Model& model, const ForwardOptions& options);

/// The task's loss of 0 for a batch without samples, with a graph through the whole model.
at::Tensor forward_nothing(const Model& model, samples::Batch batch, const ForwardOptions& options);

/// The task's predictions for a batch that is not empty.
Prediction predict(const Model& model, samples::Batch batch, const ForwardOptions& options);

// ---- evaluation, in evaluate.cpp

/// The conversion of this rank's measurements to those of all ranks: collectives, or the identity if batches are of all
/// ranks.
struct OfAllRanks {
  std::function<Sums(const Sums&)> sums;
  std::function<Rows(const Rows&)> rows;
};

/// Runs the model in evaluation mode over an epoch of batches. `of_all_ranks` is called with sums, among them `loss`
/// over items and `samples`, and then with rows. With a sampler that gives every sample to one rank the result is
/// exact, and the same on every rank and for every number of ranks up to the rounding of sums that are not integers. A
/// trial does not call Task::show, and a metric may report that there is too little data for it.
Evaluation evaluate(const Model& model, samples::Batches& batches, const ForwardOptions& options,
                    const OfAllRanks& of_all_ranks, EvaluationPurpose purpose = EvaluationPurpose::result);

/// Sums as one line of text, and the sum of several such lines, in their order.
std::string to_text(const Sums& sums);
Sums add_up(const std::vector<std::string>& texts);

/// The rows of all ranks, concatenated in their order; a rank may lack names that other ranks have. A collective.
/// Error(mismatch) when ranks have different row sizes or dtypes under one name.
Rows gather_rows(const Rows& own, const Group& group);

}  // namespace lockstep::train
