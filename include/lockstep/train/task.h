// The interface of tasks: what a model computes from a batch, and what is measured of it.
//
//   auto task = train::make_task<Net>([](Net& net, const samples::Batch& batch) {
//     const auto y = net.forward(batch["x"]);
//     return train::Outcome{torch::mse_loss(y, batch["y"]),
//                           {{"abs_error", train::sum_of((y - batch["y"]).abs())}}};
//   });
#pragma once

#include <lockstep/samples/sample.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace torch::nn {
class Module;
}

namespace lockstep::train {

/// A number that is added over batches and ranks, and what it is divided by in the end.
struct Sum {
  double sum = 0;
  double count = 0;
};

/// The same of one batch, as a tensor of one element: its value is read in evaluations only.
struct Measure {
  at::Tensor sum;
  double count = 0;
};

/// The sum of all elements of a tensor, over their number.
Measure sum_of(const at::Tensor& tensor);

using Measures = std::map<std::string, Measure, std::less<>>;
using Sums = std::map<std::string, Sum, std::less<>>;
using Values = std::map<std::string, double, std::less<>>;

/// The result of one forward pass.
struct Outcome {
  at::Tensor loss;  ///< scalar that autograd can follow: a mean over `items`
  Measures sums{};  ///< of metrics, by name
  /// What `loss` is a mean over, when that is not the samples: valid tokens, positive pixels, the sum of weights. The
  /// step then minimizes the mean over the items of all batches and ranks, whatever number each of them has.
  std::optional<double> items = std::nullopt;
};

/// Called on the training thread of each rank, with tensors on the run's device. In parallel.mode semi_auto and auto
/// the tensors and the module's parameters are global, and sums are those of all ranks. Any exception ends the run on
/// all ranks, with its reason.
class Task {
 public:
  virtual ~Task() = default;

  /// Forward pass and loss. `measures`: in an evaluation, where `sums` is read.
  virtual Outcome run(torch::nn::Module& model, const samples::Batch& batch, bool measures) = 0;

  /// The metrics, from the sums of all batches and ranks: by default each sum over its count. `loss` is among the sums,
  /// and is left out of what this returns.
  virtual Values metrics(const Sums& sums) const;

  /// What the model says of a batch, for `predict`. Error(unsupported) by default.
  virtual samples::Tensors predict(torch::nn::Module& model, const samples::Batch& batch);

  /// A text about the model to be shown after an evaluation, such as a sample of what it generates; empty: nothing.
  /// Called on all ranks, with the model in evaluation mode. `place` makes of a tensor of this rank a batch as `run`
  /// sees it: in semi_auto and auto with the rows of all ranks, which are equal where all ranks place the same.
  using Place = std::function<at::Tensor(const at::Tensor&)>;
  virtual std::string show(torch::nn::Module& model, const Place& place);

  /// A scalar 0 whose gradients are 0 for all parameters, from a batch without samples. Needed only where the forward
  /// pass has collectives (parallel.sync_batch_norm); Error(unsupported) by default.
  virtual at::Tensor nothing(torch::nn::Module& model, const samples::Batch& batch);
};

namespace detail {

[[noreturn]] void fail_wrong_model(const char* wanted);

template <typename Model, typename Function>
class FunctionTask final : public Task {
 public:
  explicit FunctionTask(Function function) : function_(std::move(function)) {}

  Outcome run(torch::nn::Module& module, const samples::Batch& batch, bool measures) override {
    auto* model = dynamic_cast<Model*>(&module);
    if (model == nullptr) fail_wrong_model(typeid(Model).name());
    if constexpr (std::is_invocable_v<Function, Model&, const samples::Batch&, bool>) {
      return function_(*model, batch, measures);
    } else {
      return function_(*model, batch);
    }
  }

 private:
  Function function_;
};

}  // namespace detail

/// The task of a function (Model&, const samples::Batch&) -> Outcome, with a further bool (`measures`) if it takes one.
template <typename Model, typename Function>
std::shared_ptr<Task> make_task(Function function) {
  return std::make_shared<detail::FunctionTask<Model, Function>>(std::move(function));
}

}  // namespace lockstep::train
