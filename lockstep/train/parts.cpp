// The shipped parts: models, data sets, and the list of all kinds; the errors of names that are in none of its lists.
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/data/format.h>
#include <lockstep/models/gpt.h>
#include <lockstep/models/picture_models.h>
#include <lockstep/models/torchscript.h>
#include <lockstep/models/wide_and_deep.h>
#include <lockstep/samples/criteo.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/samples/stored_pictures.h>
#include <lockstep/samples/table.h>
#include <lockstep/samples/text.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/modes/wrapper.h>
#include <lockstep/train/optimizer/schedule.h>
#include <lockstep/train/parts.h>
#include <lockstep/train/tasks/classification.h>

#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

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

DataPart text() {
  return {
      .name = "text",
      .doc = "windows of the bytes of a text file, or of a file of tokens",
      .options = PartOptions::of(samples::TextOptions{}),
      .load = [](const PartOptions& options,
                 data::Split split) { return samples::load_text(options.as<samples::TextOptions>(), split); },
      .example = [](const PartOptions& options) { return samples::text_example(options.as<samples::TextOptions>()); }};
}

DataPart criteo() {
  return {.name = "criteo",
          .doc = "clicks in Criteo's format, as rows of embedding tables",
          .options = PartOptions::of(samples::CriteoOptions{}),
          .load = [](const PartOptions& options,
                     data::Split split) { return samples::load_criteo(options.as<samples::CriteoOptions>(), split); },
          .example = [](const PartOptions&) { return samples::criteo_example(); }};
}

/// A data set from which a plan reads a sample.
template <typename Options>
DataPart from_files(std::string name, std::string doc,
                    std::shared_ptr<const samples::Dataset> (*load)(const Options&, data::Split)) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .options = PartOptions::of(Options{}),
          .load = [load](const PartOptions& options, data::Split split) { return load(options.as<Options>(), split); }};
}

void add_data_sets(Parts& parts) {
  for (const auto& format : data::dataset_formats()) {
    const std::string name(format.name);
    parts.data.push_back({.name = name,
                          .doc = std::string(format.doc),
                          .options = PartOptions::of(samples::PictureFolderOptions{}),
                          .load =
                              [name](const PartOptions& options, data::Split split) {
                                return samples::load_picture_folder(name, options.as<samples::PictureFolderOptions>(),
                                                                    split);
                              },
                          .shape = format.shape});
  }
  parts.data.push_back(text());
  parts.data.push_back(from_files("image_folder", "pictures in a folder for each class", samples::load_image_folder));
  parts.data.push_back(
      from_files("image_list", "pictures that a list names with their labels", samples::load_image_list));
  parts.data.push_back(from_files("image_lmdb", "pictures and labels in LMDB, as for CRNN", samples::load_image_lmdb));
  parts.data.push_back(from_files("csv", "columns of numbers and categories of a CSV file", samples::load_table));
  parts.data.back().example = [](const PartOptions& options) {
    return samples::table_example(options.as<samples::TableOptions>());
  };
  parts.data.push_back(criteo());
  parts.data.push_back(from_files("token_stream", "documents of many files as windows of tokens, read in order",
                                  samples::load_token_stream));
}

}  // namespace

// LOCKSTEP_PART_FILES is the list of train/CMakeLists.txt, as X(NAME) X(NAME) and so on.
#define X(name) void add_##name(Parts& parts);
LOCKSTEP_PART_FILES
#undef X

Parts shipped_parts() {
  Parts parts;
  parts.losses = classification_losses();
  parts.schedules = schedule_parts();
  parts.metrics = shipped_metrics();
  parts.transforms = samples::shipped_transforms();
  parts.wrappers = wrapper_parts();
  add_models(parts);
  add_data_sets(parts);
#define X(name) add_##name(parts);
  LOCKSTEP_PART_FILES
#undef X
  return parts;
}

const std::shared_ptr<const Parts>& shared_shipped_parts() {
  static const auto shipped = std::make_shared<const Parts>(shipped_parts());
  return shipped;
}

void require_makers(const Parts& parts) {
  for_each_kind([&](std::string_view kind, std::string_view, auto member) {
    for (const auto& part : parts.*member) {
      if (part.name.empty()) fail(ErrorKind::invalid_argument, "parts", "one of {} has no name; give it one", kind);
      const auto need = [&](bool given, std::string_view function) {
        if (given) return;
        fail(ErrorKind::invalid_argument, "parts", "'{}' of {} has no function `{}`; give it one", part.name, kind,
             function);
      };
      if constexpr (requires { part.make_for_batches; }) {
        need(part.make || part.make_for_batches, "make");
      } else if constexpr (requires { part.make; }) {
        need(static_cast<bool>(part.make), "make");
      } else if constexpr (requires { part.load; }) {
        need(static_cast<bool>(part.load), "load");
      }
    }
  });
}

void fail_unknown_part(const std::vector<std::string>& names, std::string_view name, std::string_view key) {
  fail(ErrorKind::config, key, "'{}' is not one of {}{}", name, fmt::join(names, ", "), did_you_mean(name, names));
}

}  // namespace lockstep::train
