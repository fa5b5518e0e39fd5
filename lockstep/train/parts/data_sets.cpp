// The shipped data sets as parts: pictures in memory and in files, text, tables, clicks, streams of tokens.
#include <lockstep/data/format.h>
#include <lockstep/samples/criteo.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/samples/stored_pictures.h>
#include <lockstep/samples/table.h>
#include <lockstep/samples/text.h>
#include <lockstep/train/parts.h>

#include <memory>
#include <string>
#include <utility>

namespace lockstep::train {
namespace {

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

}  // namespace

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

}  // namespace lockstep::train
