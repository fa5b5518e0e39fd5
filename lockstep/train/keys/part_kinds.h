// The kinds of parts (an operation on all kinds, such as listing, needs only one line per kind here), and the keys in a
// section of a configuration that belong to the part which the section names.
#pragma once

#include <lockstep/train/parts.h>

#include <fmt/format.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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

template <typename Section>
const std::string& part_name_in(const Section& section) {
  return section.name;
}
inline const std::string& part_name_in(const WrapperConfig& section) { return section.type; }

/// Visits the keys of the part that a section names, if it names one of `parts`. In lists of keys, each part has its
/// own section.
template <typename Section, typename Part>
void visit_options(ConfigFields& fields, Section& section, const std::vector<Part>& parts) {
  const auto* part = find_part(parts, part_name_in(section));
  if (part == nullptr || fields.purpose() == ConfigFields::Purpose::listing) return;
  if (section.options.part() != part->name) section.options = part->options.named(part->name);
  section.options.visit(fields);
}

/// The options of the part. DataConfig::root is a short form of their key `root`, for configurations made in a program.
PartOptions data_options(const DataConfig& config, const DataPart& part);

/// The key `root` of options; nullptr where they have none. Valid as long as they are.
std::string* root_of(PartOptions& options);

/// Error(config) unless options that a program has chosen for a section (choose()) belong to the part `name` and have
/// the keys of `declared`, those of the part. `key` is "optimizer.name".
void require_options_of(const PartOptions& chosen, std::string_view name, const PartOptions& declared,
                        std::string_view key);

/// The same for a section that names one of `parts`.
template <typename Section, typename Part>
void require_own_options(const Section& section, const std::vector<Part>& parts, std::string_view key) {
  const auto* part = find_part(parts, part_name_in(section));
  if (part != nullptr) require_options_of(section.options, part->name, part->options, key);
}

/// A part with its options.
struct NamedOptions {
  std::string name;
  PartOptions options;
};

/// Lets a file give keys that the part called `own` does not have, but other parts of its kind have, so that one file
/// serves several names. The values are checked. Returns text such as "eps: 1e-06" for each key with another value than
/// its default. But a value for one of the keys `telling` is an error: the user expects it to have an effect.
/// `name_key` is "optimizer.name".
std::vector<std::string> take_unused_keys(ConfigFields& fields, const NamedOptions& own,
                                          const std::vector<NamedOptions>& others, std::string_view name_key,
                                          std::span<const std::string_view> telling);

/// Calls visit_options, and visits the keys that only other parts of Lockstep have: those that are given, and have no
/// effect, become lines of run.without_effect.
template <typename Section, typename Part>
void visit_options_of_all(ConfigFields& fields, ResolvedRun& run, Section& section, std::vector<Part> Parts::*list,
                          std::string_view name_key, std::span<const std::string_view> telling = {}) {
  visit_options(fields, section, (*run.parts).*list);
  if (fields.purpose() != ConfigFields::Purpose::reading) return;
  const auto& name = part_name_in(section);
  const auto* part = find_part((*run.parts).*list, name);
  if (part == nullptr && !name.empty()) return;  // another check reports that
  std::vector<NamedOptions> others;
  for (const auto& each : (*shared_shipped_parts()).*list) {
    if (each.name != name) others.push_back({each.name, each.options});
  }
  const auto own = part == nullptr ? PartOptions() : section.options;
  const auto why = name.empty() ? fmt::format("without {}", name_key) : fmt::format("with {} {}", name_key, name);
  for (const auto& key : take_unused_keys(fields, {name, own}, others, name_key, telling)) {
    run.without_effect.push_back(fmt::format("# no effect {}: {}\n", why, key));
  }
}

}  // namespace lockstep::train
