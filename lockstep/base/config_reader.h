// Reading of a configuration, beside base/config.h: with words of other programs in messages, the options of parts, and
// the fields with the rule a_path(). Paths that begin with ~/ are expanded here, because shells expand ~/ only at the
// beginning of a word, and not in `system.work_dir=~/out`.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/base/nearest.h>

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// read_fields() of config.h, whose messages about unknown keys and values translate these words.
void read_fields(const ConfigNode& node, std::string_view path, const ForeignWords& words, const Describe& describe);

/// `path` with the value of HOME in place of ~ before a slash. Error(config) where HOME is not set.
std::string with_home(std::string path);

/// The same for all fields that are paths.
void expand_home(const Describe& describe);

/// The keys of all fields that are paths, "system.work_dir".
std::vector<std::string> path_keys(const Describe& describe);

/// Reads the options of an item of a list, such as a callback: `path` is the prefix of the keys in messages, which
/// translate `words`.
void read_options(const ConfigNode& node, std::string_view path, PartOptions& options, const ForeignWords& words = {});

}  // namespace lockstep
