// JSON values as YAML text and back, for files that people read and write.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::kube {

/// Block style; ends with a newline. Text is quoted where it could be read as something else.
std::string print_yaml_of(const nlohmann::ordered_json& value);

/// The documents of a YAML text, separated by "---" lines; empty ones are left out. Scalars get YAML's types (null,
/// booleans, integers, fractions); quoted ones are text. Error(config) at file:line for text that is not YAML.
std::vector<nlohmann::ordered_json> parse_yaml_documents(std::string_view text, const std::string& file);

}  // namespace lockstep::kube
