// Conversion between YAML text and ConfigNode, beside parse_yaml() and print_yaml() of base/config.h. Only its source,
// yaml_tree.cpp and apps/operator/job/json_yaml.cpp use yaml-cpp.
#pragma once

#include <lockstep/base/config.h>

#include <string>
#include <string_view>

namespace lockstep {

/// YAML in one line, e.g. "[64, 64]".
std::string print_yaml_flow(const ConfigNode& node);

}  // namespace lockstep
