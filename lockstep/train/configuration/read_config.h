// The reader of a whole configuration, with the parts of its plugins; the names that it accepts of other frameworks;
// and the places of keys in a file, for messages of rules between keys, which get only values.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/base/error.h>
#include <lockstep/train/resolved_run.h>

#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace lockstep::train {

/// Reads and checks a whole configuration. Error(config) as read_config, and for keys that contradict each other. The
/// configuration overrides `defaults`.
ResolvedRun read_run_config(const ConfigSource& source, ResolvedRun defaults = ResolvedRun());

/// The parts, together with those from the plugins of a configuration. Nothing else of the configuration is read.
/// Error(config) as load_run_config's.
std::shared_ptr<const Parts> load_parts(const std::filesystem::path& path, std::span<const std::string> overrides,
                                        std::shared_ptr<const Parts> parts);

/// The first line of a config.yaml that such a program writes. load_run_config() uses it to report which program owns
/// the file.
std::string own_program_line(const std::string& program);

/// Replaces keys of MindSpore, MindOCR and MMEngine that are accepted as synonyms (docs/coming_from.md) by ours, which
/// keep their positions in the file. Error(config) when a key is given by both names, or a synonym has a value that has
/// no counterpart.
ConfigNode with_own_names(ConfigNode root);

/// Adds to the error the place of the first key that it names and that `given` has, else the place of the first such
/// section. Errors that already have a place, are not of kind config, or name nothing from `given` are not changed.
Error with_place(const Error& error, const ConfigNode& given);

}  // namespace lockstep::train
