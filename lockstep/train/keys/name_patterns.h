// Patterns of parameter names in the configuration: model.freeze and optimizer.groups. Pure functions: thread-safe.
#pragma once

#include <lockstep/base/error.h>

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

/// Whether `name` matches one of the patterns, whose rules are those of parallel.shard (global/distribute_module.h).
bool fits_any(std::string_view name, const std::vector<std::string>& patterns);

/// Error(config) naming the first pattern that matches none of `names`, with the nearest name, or else the first names.
/// `key` is the key that holds the patterns, at `position`.
void require_matches(const std::vector<std::string>& patterns, const std::vector<std::string>& names,
                     std::string_view key, const FilePosition& position = {});

}  // namespace lockstep::train
