// Parts of a run that configuration files name: models, data sets and tasks, ours and those of users.
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
#include <lockstep/base/part_options.h>
#include <lockstep/data/dataset.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/train/task.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace torch::nn {
class Module;
}

namespace lockstep::train {

/// model.name
struct ModelPart {
  std::string name;
  std::string doc{};  ///< one line
  PartOptions options{};
  std::function<std::shared_ptr<torch::nn::Module>(const PartOptions&)> make;
  std::string task{};  ///< name of the task where the configuration names none
};

/// data.name
struct DataPart {
  std::string name;
  std::string doc{};
  PartOptions options{};
  /// nullptr: no such split. Errors name the key that would help.
  std::function<std::shared_ptr<const samples::Dataset>(const PartOptions&, data::Split)> load;
  /// A batch of one sample of these options, without reading data; empty: the data is read where a plan needs one.
  std::function<samples::Batch(const PartOptions&)> example{};
};

/// task.name
struct TaskPart {
  std::string name;
  std::string doc{};
  PartOptions options{};
  std::function<std::shared_ptr<Task>(const PartOptions&)> make;
};

/// A plain value. Names are unique in each list; a later part with the name of an earlier one takes its place.
struct Parts {
  std::vector<ModelPart> models;
  std::vector<DataPart> data;
  std::vector<TaskPart> tasks;
};

/// Those that Lockstep brings, beside the pictures' (models/registry.h, data/dataset.h): the model gpt, the data set
/// text, the tasks language_modelling.
Parts shipped_parts();

/// The part of that name, nullptr without.
template <typename Part>
const Part* find_part(const std::vector<Part>& parts, std::string_view name) {
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->name == name) return &*part;
  }
  return nullptr;
}

}  // namespace lockstep::train
