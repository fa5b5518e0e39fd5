// Tasks: the computation of a model on a batch, and its measurements. Metrics are separate parts. And threads that work
// for a task meanwhile.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/train/callback.h>

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace lockstep::train {

// The interface of tasks: the computation of a model on a batch, and its measurements.
//
//   auto task = train::make_task<Net>([](Net& net, const samples::Batch& batch) {
//     const auto y = net.forward(batch["x"]);
//     return train::Outcome{torch::mse_loss(y, batch["y"]),
//                           {{"abs_error", train::sum_of((y - batch["y"]).abs())}}};
//   });

/// A number that is added over batches and ranks, and the count by which it is divided at the end.
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

/// Unreduced numbers of samples, by the name of the metric that uses them: [samples, numbers], of one dtype.
using Rows = std::map<std::string, at::Tensor, std::less<>>;

/// The result of one forward pass.
struct Outcome {
  at::Tensor loss;  ///< scalar that autograd can follow: a mean over `items`
  Measures sums{};  ///< of metrics, by name
  /// The number of items of which `loss` is the mean, if they are not the samples: valid tokens, positive pixels, the
  /// sum of weights. The step then minimizes the mean over the items of all batches and ranks, independent of their
  /// numbers.
  std::optional<double> items = std::nullopt;
  /// The output of the model and its target, for the metrics of the configuration; undefined: such metrics are not
  /// supported. Needed in evaluations only.
  at::Tensor output{};
  at::Tensor target{};
  /// For metrics that are not functions of sums (Metric::rows); read in evaluations only.
  Rows rows{};
  /// Instead of `loss` and `items`, for a loss that is a function of sums over the samples (Task::loss_of): those sums,
  /// float64 [Task::loss_sums()], which autograd can follow.
  at::Tensor loss_sums{};
};

/// The predictions of a model for the samples of a batch, in their order. In parallel.mode semi_auto and auto for the
/// samples of all ranks, like the batch.
struct Prediction {
  samples::Tensors tensors{};  ///< each with the samples along dimension 0
  std::map<std::string, std::vector<std::string>, std::less<>> texts{};
  /// Of all samples together: Task::files.
  std::map<std::string, std::string, std::less<>> files{};

  // Of Trainer::predict() only.

  /// Texts that identify each sample for users (samples::Dataset::known_as).
  std::vector<std::vector<std::pair<std::string, std::string>>> known_as{};
  /// Unusable samples, by their numbers, with the reason (data.on_error skip): their rows are 0, their texts are empty.
  std::map<std::int64_t, std::string> left_out{};
  std::vector<std::string> classes{};  ///< names, if the data set has them (samples::Dataset::classes)
};

/// Called on the training thread of each rank, with tensors on the run's device. In parallel.mode semi_auto and auto
/// the tensors and the module's parameters are global, and sums are those of all ranks. Any exception ends the run on
/// all ranks, with its reason.
class Task {
 public:
  virtual ~Task() = default;

  /// Forward pass and loss. `measures`: in an evaluation, where `sums` is read.
  virtual Outcome run(torch::nn::Module& model, const samples::Batch& batch, bool measures) = 0;

  /// For a loss that is no mean over items, but a function of several sums over the samples, such as a quotient of two
  /// of them: how many sums there are (Outcome::loss_sums). In a step the ranks add them between forward and backward,
  /// so loss and gradients are those of one rank with the samples of all; with train.accumulate, the mean of those of
  /// its batches. An evaluation adds the sums of all its batches.
  virtual std::int64_t loss_sums() const { return 0; }
  /// The loss, a scalar that autograd can follow, from the sums of all samples.
  virtual at::Tensor loss_of(const at::Tensor& sums) const;

  /// Further sums, once at the end of an evaluation on each rank, before ranks add their sums: for example from threads
  /// that `run` started.
  virtual Sums late_sums();

  /// The metrics, from the sums of all batches and ranks: by default each sum over its count. `loss` is among the sums,
  /// and is left out of the result.
  virtual Values metrics(const Sums& sums) const;

  /// Further ones, from Outcome::rows of all batches and ranks, one after the other in the order of ranks: by default
  /// none.
  virtual Values metrics_of_rows(const Rows& rows) const;

  /// The model's predictions for a batch. Error(unsupported) by default.
  virtual Prediction predict(torch::nn::Module& model, const samples::Batch& batch);

  /// Further files of `lockstep predict --out DIR`, by name, from the predictions of all samples, for other programs.
  /// By default none.
  virtual std::map<std::string, std::string, std::less<>> files(const Prediction& all) const;

  /// Writes files of single samples to the folder of `lockstep predict --out`, such as pictures with the detected
  /// objects.
  /// Called on each of `ranks` ranks, which share the work: the samples i with i % ranks == rank. By default none.
  virtual void leave_files(const Prediction& all, const std::filesystem::path& folder, std::int64_t rank,
                           std::int64_t ranks) const;

  /// Pictures about the model after an evaluation, for work_dir/pictures/ and TensorBoard. Called on rank 0 after
  /// late_sums(). By default none.
  virtual std::vector<ShownPicture> pictures();

  /// A text about the model to be shown after an evaluation, such as a generated sample; empty: nothing.
  /// Called on all ranks, with the model in evaluation mode. `place` converts a tensor of this rank to a batch as in
  /// `run`: in semi_auto and auto with the rows of all ranks, which are equal if all ranks place the same tensor.
  using Place = std::function<at::Tensor(const at::Tensor&)>;
  virtual std::string show(torch::nn::Module& model, const Place& place);

  /// A scalar 0 whose gradients are 0 for all parameters, from a batch without samples. Needed only where the forward
  /// pass has collectives (parallel.sync_batch_norm); Error(unsupported) by default.
  virtual at::Tensor nothing(torch::nn::Module& model, const samples::Batch& batch);
};

namespace detail {

[[noreturn]] void fail_wrong_model(const char* wanted);

inline Outcome as_outcome(Outcome outcome) { return outcome; }
Outcome as_outcome(const at::Tensor& loss);

template <typename Model, typename Function>
class FunctionTask final : public Task {
 public:
  explicit FunctionTask(Function function) : function_(std::move(function)) {}

  Outcome run(torch::nn::Module& module, const samples::Batch& batch, bool measures) override {
    auto* model = dynamic_cast<Model*>(&module);
    if (model == nullptr) fail_wrong_model(typeid(Model).name());
    if constexpr (std::is_invocable_v<Function, Model&, const samples::Batch&, bool>) {
      return as_outcome(function_(*model, batch, measures));
    } else {
      return as_outcome(function_(*model, batch));
    }
  }

 private:
  Function function_;
};

template <typename Model, typename Loss>
class SupervisedTask final : public Task {
 public:
  SupervisedTask(Loss loss, std::string input, std::string target)
      : loss_(std::move(loss)), input_(std::move(input)), target_(std::move(target)) {}

  Outcome run(torch::nn::Module& module, const samples::Batch& batch, bool /*measures*/) override {
    return as_outcome(loss_(output_of(module, batch), batch[target_]));
  }

  Prediction predict(torch::nn::Module& module, const samples::Batch& batch) override {
    return {.tensors = {{"output", output_of(module, batch)}}};
  }

 private:
  at::Tensor output_of(torch::nn::Module& module, const samples::Batch& batch) const {
    auto* model = dynamic_cast<Model*>(&module);
    if (model == nullptr) fail_wrong_model(typeid(Model).name());
    return model->forward(batch[input_]);
  }

  Loss loss_;
  std::string input_;
  std::string target_;
};

}  // namespace detail

/// The task of a function (Model&, const samples::Batch&) -> Outcome, or -> at::Tensor when there is only a loss; with
/// a further bool (`measures`) if it takes one.
template <typename Model, typename Function>
std::shared_ptr<Task> make_task(Function function) {
  return std::make_shared<detail::FunctionTask<Model, Function>>(std::move(function));
}

/// The task of a loss function (output, target) -> at::Tensor or Outcome, with output = model.forward(batch[input]) and
/// target = batch[target]. Predicts `output`.
template <typename Model, typename Loss>
std::shared_ptr<Task> supervised(Loss loss, std::string input = "x", std::string target = "y") {
  return std::make_shared<detail::SupervisedTask<Model, Loss>>(std::move(loss), std::move(input), std::move(target));
}

// Metrics as parts that a configuration names: `metrics: [accuracy, top_k: {k: 5}, f1]`.
//
//   struct Bias : train::Metric {
//     train::Measures measure(const at::Tensor& output, const at::Tensor& target) const override {
//       return {{"error", train::sum_of(output - target)}};
//     }
//     train::Values values(const train::Sums& sums) const override {
//       return {{"bias", sums.at("error").sum / sums.at("error").count}};
//     }
//   };
//   parts.metrics.push_back({.name = "bias", .doc = "mean of output minus target", .options = {},
//                            .make = [](const PartOptions&) { return std::make_shared<Bias>(); }});

/// A measurement of a model's output against its target, as sums over batches and ranks. So any number of ranks gives
/// the same values, even if ranks have different numbers of items. Sums of whole numbers are exact.
class Metric {
 public:
  virtual ~Metric() = default;

  /// Of one batch: Outcome::output and Outcome::target of the task, on the run's device, in parallel.mode semi_auto and
  /// auto those of all ranks. The metric chooses the names.
  virtual Measures measure(const at::Tensor& output, const at::Tensor& target) const = 0;

  /// The values, by their displayed names, from the sums of all batches and ranks; a quotient whose count is 0 is
  /// left out.
  virtual Values values(const Sums& sums) const = 0;

  /// For a metric that is not a function of sums, such as one that sorts all samples: its numbers for each sample of
  /// the batch, [samples, numbers], float32 or float64. They are kept until the end of the evaluation, and then each
  /// rank gets those of all ranks: every rank needs memory for the numbers of all evaluated samples, twice while they
  /// are sent. Undefined, the default: none.
  virtual at::Tensor rows(const at::Tensor& output, const at::Tensor& target) const;
  /// The values from the rows of all batches and ranks. Their order depends on the number of ranks.
  virtual Values values_of_rows(const at::Tensor& rows) const;
};

/// The kind of a task's output and target, and of the inputs of a metric.
enum class Targets {
  any,      ///< not declared: checked in an evaluation only
  classes,  ///< output [..., C], target int64 [...]
  numbers,  ///< of equal shapes
};

/// An entry of `metrics`
struct MetricPart {
  std::string name;
  std::string doc{};  ///< one line
  PartOptions options{};
  std::function<std::shared_ptr<Metric>(const PartOptions&)> make;
  /// With a task of the other kind the metric is rejected when the configuration is read.
  Targets targets = Targets::any;
  /// The names of its values, with a star for parts that depend on the data: {"top_3"}, {"f1_*"}. A callback that
  /// compares by another name is then rejected when the configuration is read. Empty: checked in an evaluation only.
  std::function<std::vector<std::string>(const PartOptions&)> values{};
};

/// The shipped metrics. Of classes (output [..., C], target int64 [...]; targets below 0 do not count):
/// accuracy, top_k, precision, recall, f1, confusion. Of two classes (logits and targets 0 or 1): auc. Of numbers
/// (equal shapes): mae, mse, rmse, r2.
std::vector<MetricPart> shipped_metrics();

/// `task` with these metrics added, which get its Outcome::output and target. A value replaces a value of the task with
/// the same name. Error(config), in its first evaluation, for a task that gives no output.
std::shared_ptr<Task> with_metrics(std::shared_ptr<Task> task, std::vector<std::shared_ptr<Metric>> metrics);

/// The metrics of a list in a configuration, such as `[accuracy, top_k: {k: 5}]`. Error(config) with the place in the
/// file for unknown names and arguments.
std::vector<std::shared_ptr<Metric>> metrics_of(const ConfigNode& list, const std::vector<MetricPart>& parts);

/// A few threads that work for another thread, which continues meanwhile: for example on measurements of a task, until
/// Task::late_sums(). For use by one thread. Its destructor waits for running tasks, and drops the rest.
class WorkPool {
 public:
  /// Without threads, the caller runs each task at once.
  explicit WorkPool(int threads);
  ~WorkPool();
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  /// Waits while the queue has four times as many tasks as threads, so that their memory stays bounded.
  void add(std::function<void()> work);

  /// Waits until all tasks have ended. Throws the first exception that a task threw since the last wait.
  void wait();

 private:
  void run();

  const std::size_t most_waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  int working_ = 0;
  bool ends_ = false;
  std::exception_ptr error_;
  std::vector<std::jthread> threads_;  // last: they use the members above
};

}  // namespace lockstep::train
