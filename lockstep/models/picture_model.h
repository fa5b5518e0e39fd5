// One classifier of the registry: its name, what it is made for, and how it is made.
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
  std::int64_t features;  ///< inputs of the first linear layer; 0: those of the pictures
  bool has_hidden;        ///< ModelSpec::hidden has a meaning
  bool has_stem;          ///< ModelSpec::stem has a meaning
  std::shared_ptr<Network> (*build)(const ModelSpec& spec);
};

/// All, in the order in which they are listed.
std::span<const PictureModel> picture_models();

/// The key of models with a stem, ModelSpec::stem.
struct StemOptions {
  std::string stem = ModelSpec().stem;
};
void describe(ConfigFields& fields, StemOptions& options);

/// For a dry run: that the model's stem leaves one pixel of a picture of that size before the mean over the pixels, so
/// that its last convolutions see their padding, and what helps; empty where more is left, and for a model without a
/// stem.
std::string note_on_stem(const ModelSpec& spec, std::int64_t height, std::int64_t width);

}  // namespace lockstep::models
