// The shipped models as parts: the classifiers of models/, GPT, Wide & Deep, and what Python exported as TorchScript.
#include <lockstep/models/gpt.h>
#include <lockstep/models/picture_models.h>
#include <lockstep/models/torchscript.h>
#include <lockstep/models/wide_and_deep.h>
#include <lockstep/train/parts.h>

#include <filesystem>
#include <string>

namespace lockstep::train {
namespace {

ModelPart gpt() {
  return {.name = "gpt",
          .doc = "a decoder-only transformer for sequences of tokens",
          .options = PartOptions::of(models::GptShape{}),
          .make = [](const PartOptions& options) { return models::gpt(options.as<models::GptShape>()); },
          .task = "language_modelling"};
}

ModelPart wide_and_deep() {
  return {
      .name = "wide_and_deep",
      .doc = "a linear model and a network over embedding tables, for samples of ids such as clicks",
      .options = PartOptions::of(models::WideAndDeepShape{}),
      .make = [](const PartOptions& options) { return models::wide_and_deep(options.as<models::WideAndDeepShape>()); },
      .task = "binary_classification"};
}

std::filesystem::path script_file(const PartOptions& options) { return options.as<models::TorchScriptOptions>().file; }

ModelPart torchscript() {
  return {.name = "torchscript",
          .doc = "a classifier that Python exported with torch.jit.script or trace",
          .options = PartOptions::of(models::TorchScriptOptions{}),
          .make = [](const PartOptions& options,
                     const models::ModelSpec&) { return models::torchscript(script_file(options)); },
          .task = kClassification,
          .start = [](const PartOptions&, torch::nn::Module& module) { return models::remarks_on_script(module); },
          .divisible = false,
          .save =
              [](const PartOptions& options, const NamedTensors& weights, const std::filesystem::path& work_dir) {
                models::save_torchscript(script_file(options), weights, work_dir / "model.pt");
              }};
}

}  // namespace

void add_models(Parts& parts) {
  for (const auto* model : models::picture_models()) {
    const bool has_stem = model->has_stem;
    parts.models.push_back({.name = std::string(model->name),
                            .doc = std::string(model->doc),
                            .options = has_stem ? PartOptions::of(models::StemOptions{}) : PartOptions(),
                            .make =
                                [has_stem](const PartOptions& options, models::ModelSpec spec) {
                                  if (has_stem) spec.stem = options.as<models::StemOptions>().stem;
                                  return models::make_classifier(spec).module;
                                },
                            .task = kClassification});
  }
  parts.models.push_back(gpt());
  parts.models.push_back(torchscript());
  parts.models.push_back(wide_and_deep());
}

}  // namespace lockstep::train
