// Arguments of a transform by name, with checks of type, list length and range; errors carry the file's position.
#include <fmt/ranges.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/data/transform_arguments.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace lockstep::data {
namespace {

std::string describe(const TransformValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const auto* text = std::get_if<std::string>(&value)) return fmt::format("the text '{}'", cut_text(*text));
  return fmt::format("the list [{}]", fmt::join(std::get<std::vector<double>>(value), ", "));
}

[[noreturn]] void refuse(const TransformSpec& spec, const TransformArgument& argument, std::string_view rule) {
  throw Error(ErrorKind::config, "transforms",
              fmt::format("{}.{} must be {}, not {}", spec.name, argument.name, rule, describe(argument.value)),
              argument.position);
}

void check_range(const TransformSpec& spec, const TransformArgument& argument, double value, NumberRange range) {
  if (std::isfinite(value) && range.low <= value && value <= range.high) return;
  refuse(spec, argument, fmt::format("from {} to {}", range.low, range.high));
}

}  // namespace

TransformArguments::TransformArguments(const TransformSpec& spec, const std::vector<std::string>& known) : spec_(spec) {
  std::set<std::string> seen;
  for (const TransformArgument& argument : spec.arguments) {
    std::string message;
    if (known.empty()) {
      message = fmt::format("{} takes no arguments, but got '{}'", spec.name, cut_text(argument.name));
    } else if (std::find(known.begin(), known.end(), argument.name) == known.end()) {
      message = fmt::format("{} has no argument '{}'; it has {}{}", spec.name, cut_text(argument.name),
                            fmt::join(known, ", "), did_you_mean(argument.name, known));
    } else if (!seen.insert(argument.name).second) {
      message = fmt::format("{}.{} is given twice", spec.name, argument.name);
    }
    if (!message.empty()) throw Error(ErrorKind::config, "transforms", message, argument.position);
  }
}

const TransformArgument* TransformArguments::find(std::string_view name) const {
  const auto found = std::find_if(spec_.arguments.begin(), spec_.arguments.end(),
                                  [&](const TransformArgument& argument) { return argument.name == name; });
  return found == spec_.arguments.end() ? nullptr : &*found;
}

const TransformArgument& TransformArguments::require(std::string_view name) const {
  if (const TransformArgument* argument = find(name)) return *argument;
  throw Error(ErrorKind::config, "transforms", fmt::format("{} needs the argument '{}'", spec_.name, name),
              spec_.position);
}

double TransformArguments::number(std::string_view name, NumberRange range, std::optional<double> fallback) const {
  if (fallback && find(name) == nullptr) return *fallback;
  const TransformArgument& argument = require(name);
  const auto* value = std::get_if<double>(&argument.value);
  if (value == nullptr) refuse(spec_, argument, "a number");
  check_range(spec_, argument, *value, range);
  return *value;
}

std::vector<double> TransformArguments::numbers(std::string_view name, NumberRange range,
                                                std::initializer_list<std::size_t> lengths, std::string_view meaning,
                                                std::optional<double> fallback) const {
  if (fallback && find(name) == nullptr) return {*fallback};
  const TransformArgument& argument = require(name);
  std::vector<double> values;
  if (const auto* one = std::get_if<double>(&argument.value)) {
    values = {*one};
  } else if (const auto* list = std::get_if<std::vector<double>>(&argument.value);
             list != nullptr && std::find(lengths.begin(), lengths.end(), list->size()) != lengths.end()) {
    values = *list;
  } else {
    refuse(spec_, argument, fmt::format("a number or {}", meaning));
  }
  for (const double value : values) check_range(spec_, argument, value, range);
  return values;
}

std::vector<int> TransformArguments::integers(std::string_view name, NumberRange range,
                                              std::initializer_list<std::size_t> lengths, std::string_view meaning,
                                              std::optional<int> fallback) const {
  std::vector<int> whole;
  for (const double value : numbers(name, range, lengths, meaning, fallback)) {
    if (value != std::floor(value)) {
      refuse(spec_, require(name), fmt::format("a whole number or {} of whole numbers", meaning));
    }
    whole.push_back(static_cast<int>(value));
  }
  return whole;
}

std::string TransformArguments::choice(std::string_view name, const std::vector<std::string>& choices) const {
  const TransformArgument& argument = require(name);
  const auto* text = std::get_if<std::string>(&argument.value);
  if (text != nullptr && std::find(choices.begin(), choices.end(), *text) != choices.end()) return *text;
  refuse(spec_, argument, fmt::format("one of {}", fmt::join(choices, ", ")));
}

}  // namespace lockstep::data
