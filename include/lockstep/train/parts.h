// Parts of a run that configuration files name: models, data sets, transforms, tasks, losses, metrics, optimizers and
// schedules, both shipped parts and those of users.
//
//   struct NetOptions { std::int64_t width = 64; };
//   void describe(ConfigFields& fields, NetOptions& options) {
//     fields.field("width", options.width, between(1, 4096), "hidden units");
//   }
//   train::Parts parts = train::shipped_parts();
//   parts.models.push_back({.name = "net", .doc = "two linear layers", .options = PartOptions::of(NetOptions{}),
//                           .make = [](const PartOptions& options) {
//                             return std::make_shared<Net>(options.as<NetOptions>().width);
//                           }, .task = "regression"});
//   return lockstep::train_main(argc, argv, parts);
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/data/pictures.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/models/registry.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/train/callback.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/resolved_run.h>
#include <lockstep/train/task.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace lockstep::train {

/// Makes the module of a model from the keys of its part. A function with a second argument also gets the sizes of the
/// data's pictures or features and of the section `model`: that of a classifier.
class ModelMaker {
 public:
  using Module = std::shared_ptr<torch::nn::Module>;
  using Function = std::function<Module(const PartOptions&, const models::ModelSpec&)>;

  ModelMaker() = default;
  template <typename Make>
  requires std::is_invocable_r_v<Module, Make&, const PartOptions&, const models::ModelSpec&> ModelMaker(Make make)
      : make_(std::move(make)) {}
  template <typename Make>
  requires std::is_invocable_r_v<Module, Make&, const PartOptions&> ModelMaker(Make make)
      : make_(
            [make = std::move(make)](const PartOptions& options, const models::ModelSpec&) { return make(options); }) {}

  Module operator()(const PartOptions& options, const models::ModelSpec& sizes = {}) const {
    return make_(options, sizes);
  }
  explicit operator bool() const { return static_cast<bool>(make_); }
  const Function& function() const { return make_; }

 private:
  Function make_;
};

/// The task of classifiers of pictures and of features. Its keys are the section `loss`, and a model of this task also
/// has the keys model.num_classes and model.hidden.
inline constexpr const char* kClassification = "classification";

/// model.name
struct ModelPart {
  std::string name;
  std::string doc{};  ///< one line
  PartOptions options{};
  /// For the task kClassification: a models::Network (models/network.h) of that many outputs for pictures of that
  /// shape.
  ModelMaker make{};
  std::string task{};  ///< name of the task if the configuration names none; kClassification for classifiers
  /// Called at the start of a run, on one rank, before model.weights: may load weights of a part of the model, which
  /// are sent to all ranks. The returned text is shown. Not called when a run continues, nor for `lockstep eval`.
  /// Empty: nothing.
  std::function<std::vector<std::string>(const PartOptions&, torch::nn::Module&)> start{};
  bool divisible = true;  ///< false: parallel.mode semi_auto and auto, which divide parameters, are rejected
  /// Writes further files of the trained model, with its parameters and buffers by name, into system.work_dir at the
  /// end of a run; empty: none.
  std::function<void(const PartOptions&, const NamedTensors&, const std::filesystem::path& work_dir)> save{};
};

/// data.name
struct DataPart {
  std::string name;
  std::string doc{};
  PartOptions options{};
  /// nullptr: no such split. Errors name the key to change.
  std::function<std::shared_ptr<const samples::Dataset>(const PartOptions&, data::Split)> load{};
  /// A batch of one sample of these options, without reading data; empty: the data is read if a plan needs such a
  /// batch, unless there is a `shape`.
  std::function<samples::Batch(const PartOptions&)> example{};
  /// Set where `load` gives samples::from_pictures(): the shape of all its pictures. Their transforms are checked with
  /// it when the configuration is read, and compiled.
  std::optional<data::PictureShape> shape{};
};

/// task.name
struct TaskPart {
  std::string name;
  std::string doc{};
  PartOptions options{};
  std::function<std::shared_ptr<Task>(const PartOptions&)> make;
  /// The names of the task's measurements, without the loss: a callback that compares by another name is then rejected
  /// when the configuration is read. nullopt: checked in an evaluation only.
  std::optional<std::vector<std::string>> measures{};
  /// The kind of Outcome::output and target: metrics of the other kind are rejected when the configuration is read.
  Targets targets = Targets::any;
};

/// From logits [N, C], floating, and labels [N], int64 in 0..C-1, to a scalar that autograd can follow: the mean over
/// N. With the transforms mixup and cutmix the labels are shares of the classes, float32 [N, C].
using ClassificationLoss = std::function<at::Tensor(const at::Tensor& logits, const at::Tensor& labels)>;

/// loss.name, of classifiers of pictures
struct LossPart {
  std::string name;
  std::string doc{};
  PartOptions options{};
  /// `config` is the section `loss`: its `options` are those of this part.
  std::function<ClassificationLoss(const LossConfig& config)> make;
};

/// optimizer.name
struct OptimizerPart {
  std::string name;
  std::string doc{};
  PartOptions options{};
  /// Makes torch::optim's SGD, Adam, AdamW, RMSprop or Adagrad, a class derived from one, or a class that manages its
  /// state
  /// (OptimizerMemory of optimizer.h) for these parameters, which have the same settings:
  /// `config` is the section `optimizer` with the `lr` and `weight_decay` of them, and `options` are those of this
  /// part. Called once for each group of settings (optimizer.groups, no_decay). The schedule sets the learning rate
  /// before each step. Another class is Error(unsupported).
  std::function<std::unique_ptr<torch::optim::Optimizer>(const std::vector<at::Tensor>& parameters,
                                                         const OptimizerConfig& config)>
      make;
  /// The update is elementwise: it does not depend on other numbers of the parameter, so parallel.shard_optimizer can
  /// divide the parameter.
  bool elementwise = false;
  /// The optimizer accepts sparse gradients of rows, so that parallel.sparse_gradients auto exchanges rows.
  bool takes_rows = false;
  /// Error(config) where values contradict each other; called when a configuration is read. Empty: they never do.
  std::function<void(const OptimizerConfig& config)> check{};
};

/// The input of a schedule: properties of the run.
struct ScheduleSpan {
  double base_lr = 0;             ///< optimizer.lr
  std::int64_t warmup_steps = 0;  ///< steps 0 .. warmup_steps - 1 are those of the warm-up
  std::int64_t total_steps = 0;   ///< of the whole run
  std::int64_t steps_per_epoch = 0;
  double min_lr = 0;  ///< scheduler.min_lr
};

/// scheduler.name
struct SchedulePart {
  std::string name;
  std::string doc{};
  PartOptions options{};
  /// Makes the function from the number of a step after the warm-up (counted from 0 at the start of the run) to its
  /// learning rate. It must be pure: a run that is resumed calls it with later steps only.
  std::function<std::function<double(std::int64_t step)>(const PartOptions&, const ScheduleSpan&)> make;
  /// The rates depend on ScheduleSpan::total_steps, so that a run with another length has other rates.
  bool looks_ahead = false;
  /// Error(config) where values contradict each other; called when a configuration is read. Empty: they never do.
  std::function<void(const SchedulerConfig& config)> check{};
};

/// Ranks along named axes; the batch is divided along `data` (and data2, data3, as plans name further ones).
struct MeshLayout {
  std::vector<int> sizes;
  std::vector<std::string> names;
};

/// parallel.wrapper.type: how a model is made parallel
struct WrapperPart {
  std::string name;
  std::string doc{};
  PartOptions options{};
  /// Sets the other keys of `parallel` that the wrapper implies, such as mode, buffers or recompute; called when a
  /// configuration is read, and again when the run begins, so a second call must change nothing. It is Error(config) if
  /// it changes a parallel.mode that is given. Empty: sets no keys.
  std::function<void(const PartOptions&, ParallelConfig&)> settings{};
  /// In parallel.mode semi_auto: the placements of parameters that parallel.shard and parallel.strategy do not name,
  /// with one for each axis of the mesh. The same on all ranks. Parameters may have no memory: only their names, shapes
  /// and dtypes are valid. Empty: none.
  std::function<ModulePlan(const PartOptions&, const torch::nn::Module&, const MeshLayout&)> place{};
  /// Prepares the module on each rank, before ranks get rank 0's parameters and buffers: may replace layers and install
  /// hooks, the same on all ranks, and call collectives. It keeps the names of parameters. Empty: nothing.
  std::function<void(const PartOptions&, torch::nn::Module&, const Group&)> wrap{};
};

/// callbacks.use
struct CallbackPart {
  std::string name;
  std::string doc{};
  PartOptions options{};
  /// Makes the callback of one rank; the callback gets its rank in before_run. nullptr: none.
  std::function<std::unique_ptr<Callback>(const PartOptions&)> make;
};

/// A plain value. A later part of a list replaces an earlier one with the same name; those of a plugin must have new
/// names.
struct Parts {
  std::vector<ModelPart> models;
  std::vector<DataPart> data;
  std::vector<TaskPart> tasks;
  std::vector<LossPart> losses;
  std::vector<OptimizerPart> optimizers;
  std::vector<SchedulePart> schedules;
  std::vector<MetricPart> metrics;
  std::vector<samples::TransformPart> transforms;  ///< of data.train_transforms
  std::vector<CallbackPart> callbacks{};
  std::vector<WrapperPart> wrappers{};
  /// Names of plugins' files whose parts are among these already: a configuration may name them with no effect.
  std::vector<std::string> built_in{};
};

/// The shipped parts.
Parts shipped_parts();

/// The part of that name; nullptr if there is none.
template <typename Part>
const Part* find_part(const std::vector<Part>& parts, std::string_view name) {
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->name == name) return &*part;
  }
  return nullptr;
}

/// Sets the part of a section (ResolvedRun::optimizer, for example) and its options, like a configuration file:
/// choose(config.optimizer, "adamw", AdamSettings{.betas = {0.9, 0.95}}).
template <typename Section, typename Options>
void choose(Section& section, std::string name, Options options) {
  section.options = PartOptions::of(std::move(options), name);
  if constexpr (requires { section.type; }) {
    section.type = std::move(name);  // a wrapper
  } else {
    section.name = std::move(name);
  }
}

}  // namespace lockstep::train
