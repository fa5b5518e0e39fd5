// The environment variables of a process as a value. Functions that take this value instead of calling getenv() are
// pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

using Environment = std::map<std::string, std::string, std::less<>>;

/// A copy of this process's environment. Do not call it while another thread changes the environment (setenv), except
/// after keep_environment().
Environment current_environment();

/// Copies the environment: from now on, current_environment() returns that copy. A later call copies it again. For a
/// program that changes its environment while other threads connect groups, as Python does by os.environ. Do not call
/// it while another thread changes the environment.
void keep_environment();

// The other functions of this header are pure.

/// The value of `name`, or nullopt when unset. An empty value counts as set.
std::optional<std::string> find(const Environment& environment, std::string_view name);

/// The integer in `name`; nullopt when unset, Error(environment) naming the variable and its value when it is not a
/// plain decimal integer within [low, high].
std::optional<std::int64_t> find_integer(const Environment& environment, std::string_view name, std::int64_t low,
                                         std::int64_t high);

}  // namespace lockstep
