// Conversion between YAML text and ConfigNode. The only header and source that use yaml-cpp.
#pragma once

#include <lockstep/base/config_node.h>

#include <string>
#include <string_view>

namespace lockstep {

/// Reads one YAML document; nothing at all is a null node. Anchors, aliases and merge keys ("<<") are resolved.
/// Error(config) at file:line, in words for people, for what is no YAML, a key that stands twice in a section, several
/// documents, or an anchor that contains itself.
ConfigNode parse_yaml(std::string_view text, const std::string& file);

/// Block style, lists of scalars in one line; ends with a newline.
std::string print_yaml(const ConfigNode& node);

/// All in one line, e.g. "[64, 64]".
std::string print_yaml_flow(const ConfigNode& node);

}  // namespace lockstep
