// The source of a configuration: one YAML file with `key.path=value` overrides applied.
#pragma once

#include <lockstep/base/config_node.h>

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

struct ConfigSource {
  std::string file;  ///< name of the file in messages
  ConfigNode root;   ///< a map
};

/// Reads `path`, then applies the overrides in order; the value of an override is YAML too (`train.epochs=3`,
/// `model.hidden=[64, 64]`). Error(config) when the file cannot be read, with file:line, or naming
/// the override, for anything that is not YAML, duplicate keys included.
ConfigSource load_config(const std::filesystem::path& path, std::span<const std::string> overrides = {});

/// The same for text already in memory; `file` is its name in messages.
ConfigSource parse_config(std::string_view text, std::string file, std::span<const std::string> overrides = {});

}  // namespace lockstep
