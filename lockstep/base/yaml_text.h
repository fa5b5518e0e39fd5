// Conversion between YAML text and ConfigNode, beside print_yaml() of base/config.h. Only its source, yaml_tree.cpp and
// apps/operator/job/json_yaml.cpp use yaml-cpp.
#pragma once

#include <lockstep/base/config.h>

#include <string>
#include <string_view>

namespace lockstep {

/// Parses one YAML document; an empty text is a null node. Anchors, aliases and merge keys ("<<") are resolved.
/// Error(config) at file:line, with a message for users, for text that is not YAML, a duplicate key in a section,
/// several documents, or an anchor that contains itself.
ConfigNode parse_yaml(std::string_view text, const std::string& file);

/// YAML in one line, e.g. "[64, 64]".
std::string print_yaml_flow(const ConfigNode& node);

}  // namespace lockstep
