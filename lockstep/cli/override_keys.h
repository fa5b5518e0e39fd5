// The positional arguments KEY=VALUE, which override keys of a configuration.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace lockstep::cli {

/// Takes `key.path=value` arguments, which stay where they are: `overrides` must outlive `command`.
inline void add_override_keys(CLI::App& command, std::vector<std::string>& overrides, const std::string& help) {
  // CLI11 2.4 refuses a name with '='.
  command.add_option("KEYS", overrides, help)->type_name("KEY=VALUE");
}

}  // namespace lockstep::cli
