#include <lockstep/base/config_fields.h>

#include <utility>

namespace lockstep {

ConfigRule anything() { return {}; }

ConfigRule at_least(double low) { return {.low = low}; }

ConfigRule above(double low) { return {.low = low, .low_excluded = true}; }

ConfigRule between(double low, double high) { return {.low = low, .high = high}; }

ConfigRule from_to_below(double low, double high) { return {.low = low, .high = high, .high_excluded = true}; }

ConfigRule one_of(std::vector<std::string> choices) { return {.choices = std::move(choices)}; }

ConfigRule hidden() { return {.hidden = true}; }

ConfigRule required(ConfigRule rule) {
  rule.required = true;
  return rule;
}

}  // namespace lockstep
