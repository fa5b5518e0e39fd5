// The constructors of ConfigRule: ranges, choices, lists and other conditions on one field of a configuration.
#include <lockstep/base/config.h>

#include <utility>

namespace lockstep {

ConfigRule anything() { return {}; }

ConfigRule at_least(double low) { return {.low = low}; }

ConfigRule above(double low) { return {.low = low, .low_excluded = true}; }

ConfigRule between(double low, double high) { return {.low = low, .high = high}; }

ConfigRule from_to_below(double low, double high) { return {.low = low, .high = high, .high_excluded = true}; }

ConfigRule one_of(std::vector<std::string> choices) { return {.choices = std::move(choices)}; }

ConfigRule hidden() { return {.hidden = true}; }

ConfigRule items(std::size_t count, ConfigRule rule) {
  rule.count = count;
  return rule;
}

ConfigRule ascending(ConfigRule rule) {
  rule.ascending = true;
  return rule;
}

ConfigRule or_default(ConfigRule rule) {
  rule.null_is_default = true;
  return rule;
}

ConfigRule a_path(ConfigRule rule) {
  rule.path = true;
  return rule;
}

ConfigRule required(ConfigRule rule) {
  rule.required = true;
  return rule;
}

}  // namespace lockstep
