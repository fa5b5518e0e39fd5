// The tree of a YAML document, built while yaml-cpp reads it.
#pragma once

#include <lockstep/base/config.h>

#include <string>
#include <string_view>

namespace lockstep {

inline constexpr int kDeepestYaml = 50;

/// The document of a text, as parse_yaml() (config.h) describes it; YAML::Exception where the text is not YAML.
ConfigNode read_yaml_tree(std::string_view text, const std::string& file);

}  // namespace lockstep
