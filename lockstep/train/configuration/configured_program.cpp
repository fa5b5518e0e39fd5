// A program made from the configuration: data set, model and task from registered parts, where the user does not supply
// them.
#include <lockstep/base/error.h>
#include <lockstep/data/files/reports.h>
#include <lockstep/models/picture_models.h>
#include <lockstep/models/registry.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/samples/stored_pictures.h>
#include <lockstep/samples/table.h>
#include <lockstep/state/tensors.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/parts.h>
#include <lockstep/train/program.h>
#include <lockstep/train/resources/run_data.h>
#include <lockstep/train/tasks/classification.h>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <future>
#include <utility>

namespace lockstep::train {
namespace {

std::string text(const data::PictureShape& shape) {
  return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

const ModelPart& model_part(const ResolvedRun& config) {
  return part_named(config.parts->models, config.model.name, "model.name");
}

/// Inputs follow the batches of the data, outputs the configuration.
models::ModelSpec model_spec(const ResolvedRun& config, const samples::Batch& batch) {
  const bool has_input = batch.tensors.contains(samples::kPictures) || batch.tensors.contains(samples::kFeatures);
  if (!has_input || input_of(batch).dim() < 2) {
    fail(ErrorKind::config, "model.name",
         "{} takes pictures or features, and the samples of data.name {} have no field '{}' with the shape [C, H, W] "
         "and no field '{}'",
         config.model.name, config.data.name, samples::kPictures, samples::kFeatures);
  }
  const auto& input = input_of(batch);
  const auto* model = models::find_picture_model(config.model.name);
  if (model != nullptr && model->features > 0 && input.dim() != 4) {
    fail(ErrorKind::config, "model.name",
         "{} takes pictures [C, H, W], and a sample of data.name {} is [{}]; take model.name=mlp, or a data set of "
         "pictures",
         config.model.name, config.data.name, fmt::join(input.sizes().slice(1), ", "));
  }
  return {config.model.name, config.model.num_classes, input.size(1), input.numel() / input.size(0),
          config.model.hidden};
}

void require_enough_outputs(const ResolvedRun& config, int classes) {
  if (config.model.num_classes >= classes) return;
  fail(ErrorKind::config, "model.num_classes", "is {}, but {} has {} classes; give at least as many",
       config.model.num_classes, config.data.name, classes);
}

/// The section `loss` is a short form of the task kClassification.
std::shared_ptr<Task> make_task_of(const ResolvedRun& config, const ModelPart& model) {
  const auto& name = config.task.name.empty() ? model.task : config.task.name;
  if (name == kClassification && !has_task(config)) return classification(config);
  const auto* part = find_part(config.parts->tasks, name);
  if (part == nullptr) {
    fail(ErrorKind::config, "task.name", "is not given, and {}",
         name.empty() ? fmt::format("model.name {} has no task of its own; give one", model.name)
                      : fmt::format("the task {} of model.name {} does not exist", name, model.name));
  }
  return part->make(options_of(config.task, *part));
}

/// Sizes may differ.
void require_same_kind(const samples::Batch& training, const samples::Batch& evaluation) {
  for (const auto& [name, tensor] : evaluation.tensors) {
    const auto found = training.tensors.find(name);
    if (found == training.tensors.end()) continue;
    const auto& other = found->second;
    const bool is_mixed = name == samples::kLabels && other.dim() == 2 && tensor.dim() == 1;  // mixup, cutmix
    if (is_mixed) continue;
    if (tensor.dtype() == other.dtype() && tensor.dim() == other.dim()) continue;
    fail(ErrorKind::config, "data.eval_transforms",
         "makes `{}` {}, and data.train_transforms makes it {}; the model takes only one of the two: end both lists "
         "with the same steps, such as to_tensor",
         name, state::dtype_and_sizes(tensor), state::dtype_and_sizes(other));
  }
}

/// The data set of the configuration, after its transforms.
class ConfiguredData {
 public:
  explicit ConfiguredData(const ResolvedRun& config)
      : config_(config),
        part_(data_part(config)),
        train_list_(transforms_of(config, data::Split::train, part_.shape)),
        eval_list_(transforms_of(config, data::Split::test, part_.shape)) {}

  std::shared_ptr<const samples::Dataset> load(data::Split split) {
    const bool trains = split == data::Split::train;
    if (trains) {
      if (auto loaded = train_.lock()) return loaded;
    }
    auto dataset = part_.load(data_options(config_.data, part_), split);
    if (!dataset) return nullptr;
    const auto pictures = dataset->stored();
    if (!config_.has_own_model && !has_task(config_)) {
      require_enough_outputs(config_, pictures ? pictures->num_classes() : static_cast<int>(dataset->classes().size()));
    }
    dataset = samples::transformed(std::move(dataset), trains ? train_list_ : eval_list_);
    const auto training = train_.lock();
    if (trains) {
      train_ = dataset;
    } else if (training && config_.data.eval_transforms.kind != ConfigNode::Kind::null) {
      require_same_kind(training->example(), dataset->example());
    }
    return dataset;
  }

  samples::Batch example() {
    const auto of_pictures = part_.shape ? std::optional(picture_example()) : std::nullopt;
    if (train_list_.of_batches.empty()) {
      if (of_pictures) return *of_pictures;
      if (part_.example && !train_list_.steps) return part_.example(data_options(config_.data, part_));
    }
    return load(data::Split::train)->example();
  }

  /// For a dry run, of pictures in memory.
  std::string describe() const {
    return part_.shape ? fmt::format("# training pictures:   {}\n# evaluation pictures: {}\n", train_list_.text,
                                     eval_list_.text)
                       : "";
  }

 private:
  samples::Batch picture_example() const {
    if (train_list_.output == eval_list_.output) return samples::picture_example(train_list_.output);
    fail(ErrorKind::config, "data",
         "data.train_transforms makes pictures of {}, data.eval_transforms of {}; they must be the same",
         text(train_list_.output), text(eval_list_.output));
  }

  ResolvedRun config_;
  DataPart part_;
  samples::TransformList train_list_;  // read at once, to report mistakes before data is read
  samples::TransformList eval_list_;
  std::weak_ptr<const samples::Dataset> train_;  // so that it is read once
};

void set_data(Program& program, const ResolvedRun& config) {
  const auto data = std::make_shared<ConfiguredData>(config);
  program.data = [data](data::Split split) { return data->load(split); };
  program.example = [data] { return data->example(); };
  program.describe_data = [data] { return data->describe(); };
}

/// Runs in its own thread: where a plan makes a model without memory, tensors of this thread have no memory.
samples::Batch read_example(const std::function<samples::Batch()>& example) {
  return std::async(std::launch::async,
                    [&, of_waiting = data::ReportsOnce::current()] {
                      const data::ReportsOnce once(of_waiting);
                      return example();
                    })
      .get();
}

/// "# note: ..." for a dry run, about pictures that the model's stem makes too small.
std::string describe_stem(const ResolvedRun& config, const ModelPart& part, const samples::Batch& batch) {
  auto spec = model_spec(config, batch);
  spec.stem = options_of(config.model, part).as<models::StemOptions>().stem;
  const auto& sizes = input_of(batch).sizes();
  const auto note = models::note_on_stem(spec, sizes.at(2), sizes.at(3));
  return note.empty() ? "" : fmt::format("# note: {}\n", note);
}

void set_model(Program& program, const ResolvedRun& config) {
  const auto& part = model_part(config);
  if (part.task == kClassification) {
    if (const auto* model = models::find_picture_model(part.name); model != nullptr && model->has_stem)
      program.describe_data = [config, part, example = program.example, before = program.describe_data] {
        return (before ? before() : "") + describe_stem(config, part, read_example(example));
      };
    program.model = [config, part, example = program.example] {
      return part.make(options_of(config.model, part), model_spec(config, read_example(example)));
    };
  } else {
    program.model = [config, part] { return part.make(options_of(config.model, part)); };
  }
  program.task = make_task_of(config, part);
}

}  // namespace

DataSource::DataSource(std::shared_ptr<const samples::Dataset> train, std::shared_ptr<const samples::Dataset> test)
    : load_([train = std::move(train), test = std::move(test)](data::Split split) {
        return split == data::Split::train ? train : test;
      }) {}

Program configured_program(const ResolvedRun& config) {
  Program program{.name = config.model.name, .model = {}, .task = {}, .data = {}};
  set_data(program, config);
  set_model(program, config);
  program.is_configured = true;
  return program;
}

Program complete_program(Program program, const ResolvedRun& config) {
  if (program.model && program.task && program.data) return program;
  if (program.model && !program.task) {
    fail(ErrorKind::invalid_argument, "train",
         "the program has a model and no task; give what is minimized: .task = train::make_task<Net>(...) or "
         "train::supervised<Net>(loss function)");
  }
  const bool is_part = uses_task(config);
  if (!program.model && program.data && !is_part) {
    fail(ErrorKind::invalid_argument, "train",
         "the program has data and no model, and model.name '{}' is none that can be made for them; give a model, or "
         "let the configuration name the data, too",
         config.model.name);
  }
  if (!program.data) {
    const auto example = program.example;
    set_data(program, config);
    if (example) program.example = example;
  }
  if (!program.model) {
    const auto task = program.task;
    program.name = config.model.name;
    set_model(program, config);
    if (task) program.task = task;
  }
  return program;
}

}  // namespace lockstep::train
