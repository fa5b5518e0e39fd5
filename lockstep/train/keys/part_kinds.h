// The kinds of parts: an operation on all kinds, such as listing, needs only one line per kind here.
#pragma once

#include <lockstep/train/parts.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

/// Calls visit(plural, section, list) for each kind, with the member of Parts that is its list: "models" are what the
/// section `model` of a configuration names.
template <typename Visit>
void for_each_kind(const Visit& visit) {
  visit("models", "model", &Parts::models);
  visit("tasks", "task", &Parts::tasks);
  visit("losses", "loss", &Parts::losses);
  visit("metrics", "metric", &Parts::metrics);
  visit("data", "data", &Parts::data);
  visit("optimizers", "optimizer", &Parts::optimizers);
  visit("schedules", "scheduler", &Parts::schedules);
  visit("transforms", "transform", &Parts::transforms);
  visit("callbacks", "callback", &Parts::callbacks);
  visit("wrappers", "parallel.wrapper", &Parts::wrappers);
}

/// Parts that are items of a list, such as callbacks: their keys are not keys of a section.
inline bool is_list_item(std::string_view section) {
  return section == "transform" || section == "metric" || section == "callback";
}

/// The shipped parts, made once.
const std::shared_ptr<const Parts>& shared_shipped_parts();

/// The names of all parts of a list, each once.
template <typename Part>
std::vector<std::string> names_of(const std::vector<Part>& parts) {
  std::vector<std::string> names;
  for (const auto& part : parts) {
    if (find_part(parts, part.name) == &part) names.push_back(part.name);
  }
  return names;
}

/// Error(invalid_argument) for a part without the function that makes it.
void require_makers(const Parts& parts);

[[noreturn]] void fail_unknown_part(const std::vector<std::string>& names, std::string_view name, std::string_view key);

/// The part of that name. Error(config) with `key` and a suggestion when there is no such part.
template <typename Part>
const Part& part_named(const std::vector<Part>& parts, std::string_view name, std::string_view key) {
  const auto* part = find_part(parts, name);
  if (part == nullptr) fail_unknown_part(names_of(parts), name, key);
  return *part;
}

/// The options of the part that a section names: the values that were read, or the part's defaults.
template <typename Section, typename Part>
const PartOptions& options_of(const Section& section, const Part& part) {
  return section.options.part() == part.name ? section.options : part.options;
}

}  // namespace lockstep::train
