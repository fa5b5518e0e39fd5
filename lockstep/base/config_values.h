// Conversion of one configuration field from a YAML node and to one, and the names of its type and allowed values.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/base/nearest.h>

#include <string>
#include <vector>

namespace lockstep::detail {

struct ConfigMistake {
  FilePosition position;
  std::string text;
  bool is_missing = false;  ///< a required key, perhaps because its name is misspelt: shown after the unknown ones
};

/// Stores the value of `node` in the target. When its type or value breaks the rule, adds to `mistakes`, in which
/// `words` are translated, and does not change the target.
void read_value(const ConfigNode& node, const std::string& path, const ConfigTarget& target, const ConfigRule& rule,
                const ForeignWords& words, std::vector<ConfigMistake>& mistakes);

/// The field as a node that `read_value` would read as the same value.
ConfigNode to_node(const ConfigTarget& target);

/// "integer", "list of numbers", "text, may be null", ...
std::string type_name(const ConfigTarget& target);

/// "above 0", "sgd | momentum"; empty when every value is allowed.
std::string allowed_values(const ConfigRule& rule);

}  // namespace lockstep::detail
