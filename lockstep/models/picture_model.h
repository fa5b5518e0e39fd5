// The classifiers of the registry: their names, their purposes, and their factories.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/models/network.h>
#include <lockstep/models/registry.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::models {

struct PictureModel {
  std::string_view name;
  std::string_view doc;   ///< one line
  std::int64_t features;  ///< inputs of the first linear layer; 0: the size of the pictures
  bool has_hidden;        ///< ModelSpec::hidden is used
  bool has_stem;          ///< ModelSpec::stem is used
  std::shared_ptr<Network> (*build)(const ModelSpec& spec);
};

/// The classifiers, each in the file of its model.
extern const PictureModel kResNet18, kResNet34, kResNet50, kResNet20, kMlp, kLeNet5, kVgg11;

/// All of them, in the order of the list.
std::span<const PictureModel* const> picture_models();

/// nullptr: it is none of them.
const PictureModel* find_picture_model(std::string_view name);

/// The key of models with a stem, ModelSpec::stem.
struct StemOptions {
  std::string stem = ModelSpec().stem;
};
void describe(ConfigFields& fields, StemOptions& options);

/// A note for a dry run: the model's stem reduces a picture of that size to one pixel before the mean over the pixels,
/// so that the last convolutions mostly read padding; and a remedy. Empty where more pixels are left, and for a model
/// without a stem.
std::string note_on_stem(const ModelSpec& spec, std::int64_t height, std::int64_t width);

}  // namespace lockstep::models
