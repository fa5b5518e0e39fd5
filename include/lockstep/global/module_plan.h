// The placements of a module's parameters, by name pattern. Pure functions: thread-safe.
#pragma once

#include <lockstep/global/placement.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// `{{"*.weight", {Shard(0)}}, {"fc*.bias", {Shard(0)}}}`: the first pattern that matches a name gives the placements
/// of that parameter or buffer; those that match no pattern are replicated. In a pattern `*` stands for any characters,
/// dots included, and `?` for one.
using ModulePlan = std::vector<std::pair<std::string, Placements>>;

/// Whether `name` matches `pattern`.
bool fits(std::string_view name, std::string_view pattern);

/// The placements for `name`; nullptr when no pattern matches.
const Placements* find_placements(const ModulePlan& plan, std::string_view name);

/// Error(config) naming the first pattern that matches none of `names`, and the name that is nearest to it.
void check_patterns(const ModulePlan& plan, const std::vector<std::string>& names);

}  // namespace lockstep
