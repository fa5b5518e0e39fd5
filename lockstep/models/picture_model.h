// One classifier of the registry: its name, what it is made for, and how it is made.
#pragma once

#include <lockstep/models/network.h>
#include <lockstep/models/registry.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace lockstep::models {

struct PictureModel {
  std::string_view name;
  std::string_view doc;   ///< one line
  std::int64_t features;  ///< inputs of the first linear layer; 0: those of the pictures
  bool has_hidden;        ///< ModelSpec::hidden has a meaning
  std::shared_ptr<Network> (*build)(const ModelSpec& spec);
};

/// All, in the order in which they are listed.
std::span<const PictureModel> picture_models();

}  // namespace lockstep::models
