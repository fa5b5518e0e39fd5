#include <lockstep/base/error.h>
#include <lockstep/data/format.h>
#include <lockstep/models/registry.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/train/config_keys.h>
#include <lockstep/train/parts.h>
#include <lockstep/train/picture_pipeline.h>
#include <lockstep/train/program.h>
#include <lockstep/train/tasks/classification.h>

#include <fmt/format.h>

namespace lockstep::train {
namespace {

std::string text(const data::PictureShape& shape) {
  return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

/// Inputs with the shape of data.name's pictures after data.train_transforms, outputs as configured.
models::ModelSpec model_spec(const RunConfig& config) {
  const auto input = make_pipeline(config.data, data::Split::train).output();
  const auto eval_input = make_pipeline(config.data, data::Split::test).output();
  if (!(input == eval_input)) {
    fail(ErrorKind::config, "data",
         "data.train_transforms makes pictures of {}, data.eval_transforms of {}; they must be the same", text(input),
         text(eval_input));
  }
  return {config.model.name, config.model.num_classes, input.channels,
          static_cast<std::int64_t>(data::picture_size(input)), config.model.hidden};
}

void require_enough_outputs(const RunConfig& config, int classes) {
  if (config.model.num_classes >= classes) return;
  fail(ErrorKind::config, "model.num_classes", "is {}, but {} has {} classes; give at least as many",
       config.model.num_classes, config.data.name, classes);
}

std::shared_ptr<const samples::Dataset> load(const RunConfig& config, data::Split split) {
  std::shared_ptr<const data::Dataset> pictures;
  try {
    pictures = data::load_dataset(config.data.name, config.data.root, split);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::invalid_argument) throw;
    throw Error(ErrorKind::config, "data.root", error.message());
  }
  require_enough_outputs(config, pictures->num_classes());
  return samples::picture_dataset(std::move(pictures), make_pipeline(config.data, split));
}

std::string describe_pictures(const DataConfig& config) {
  return fmt::format("# training pictures:   {}\n# evaluation pictures: {}\n",
                     make_pipeline(config, data::Split::train).describe(),
                     make_pipeline(config, data::Split::test).describe());
}

Program pictures_program(const RunConfig& config) {
  return {
      .name = config.model.name,
      .model = [config] { return models::make_classifier(model_spec(config)).module; },
      .task = classification(config.loss),
      .data = [config](data::Split split) { return load(config, split); },
      .example = [config] { return samples::picture_example(make_pipeline(config.data, data::Split::train).output()); },
      .describe_data = [config] { return describe_pictures(config.data); }};
}

std::shared_ptr<Task> make_task_of(const RunConfig& config) {
  const auto& model = *find_part(config.model.parts->models, config.model.name);
  const auto& name = config.task.name.empty() ? model.task : config.task.name;
  const auto* part = find_part(config.task.parts->tasks, name);
  if (part == nullptr) {
    fail(ErrorKind::config, "task.name", "is not given, and {}",
         name.empty() ? fmt::format("model.name {} has no task of its own; give one", model.name)
                      : fmt::format("the task {} of model.name {} does not exist", name, model.name));
  }
  return part->make(config.task.name.empty() ? part->options : config.task.options);
}

}  // namespace

Program configured_program(const RunConfig& config) {
  Program program = pictures_program(config);
  if (uses_task(config.model)) {
    program.model = [config] {
      return find_part(config.model.parts->models, config.model.name)->make(config.model.options);
    };
    program.task = make_task_of(config);
    program.describe_data = {};
  }
  if (!config.data.options_of.empty()) {
    const auto part = *find_part(config.data.parts->data, config.data.name);
    program.data = [part, options = config.data.options](data::Split split) { return part.load(options, split); };
    program.example = nullptr;
    if (part.example) program.example = [part, options = config.data.options] { return part.example(options); };
    program.describe_data = {};
  }
  return program;
}

}  // namespace lockstep::train
