// The keys in a section of a configuration that belong to the part which the section names.
#pragma once

#include <lockstep/train/keys/part_kinds.h>

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::train {

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
