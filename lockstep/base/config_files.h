// Files of a configuration: a file, and the files that it names under `base`, merged.
#pragma once

#include <lockstep/base/config.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace lockstep {

/// The text of `file` as a section, which may be empty. Error(config) for text that is not YAML or is not a section.
ConfigNode parse_section(std::string_view text, const std::string& file);

/// Reads `path` over its bases. Each value has the position in its own file. Error(config) like load_config.
ConfigSource read_config_files(const std::filesystem::path& path);

}  // namespace lockstep
