// The keys in a section of a configuration that belong to the part which the section names.
#pragma once

#include <lockstep/train/keys/part_kinds.h>

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

/// The part that a section names; nullptr when it names none.
template <typename Section, typename Part>
const Part* named_part(const Section& section, std::vector<Part> Parts::*list) {
  return find_part(parts_or_shipped(section.parts).*list, part_name_in(section));
}

template <typename Section, typename Part>
ConfigRule one_of_parts(const Section& section, std::vector<Part> Parts::*list) {
  return one_of(names_of(parts_or_shipped(section.parts).*list));
}

/// Visits the keys of the part that a section names. In lists of keys, each part has its own section.
template <typename Section, typename Part>
void visit_options(ConfigFields& fields, Section& section, std::vector<Part> Parts::*list) {
  const auto* part = named_part(section, list);
  if (part == nullptr || fields.purpose() == ConfigFields::Purpose::listing) return;
  if (section.options_of != part->name) {
    section.options = part->options;
    section.options_of = part->name;
  }
  section.options.visit(fields);
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

/// Calls visit_options, and visits the keys that only other parts of Lockstep have.
template <typename Section, typename Part>
void visit_options_of_all(ConfigFields& fields, Section& section, std::vector<Part> Parts::*list,
                          std::string_view name_key, std::span<const std::string_view> telling = {}) {
  visit_options(fields, section, list);
  if (fields.purpose() != ConfigFields::Purpose::reading) return;
  const auto& name = part_name_in(section);
  const auto* part = named_part(section, list);
  if (part == nullptr && !name.empty()) return;  // another check reports that
  std::vector<NamedOptions> others;
  for (const auto& each : parts_or_shipped(nullptr).*list) {
    if (each.name != name) others.push_back({each.name, each.options});
  }
  const auto own = part == nullptr ? PartOptions() : section.options;
  section.unused = take_unused_keys(fields, {name, own}, others, name_key, telling);
}

}  // namespace lockstep::train
