// Plugins: shared libraries that a configuration names, and that add parts.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/train/parts.h>

#include <memory>

namespace lockstep::train {

/// `parts`, and those of the plugins that the key `plugins` of `source` names. The libraries stay loaded until the
/// process ends: what they made may live that long. Error(config) with file and line, and the plugin's name, before
/// anything of it runs: for a file that is missing or no shared library, that does not export lockstep_plugin(), was
/// built with another Lockstep or libtorch (both versions are named), or uses what is in no library; then for a part
/// that is there already, and for what lockstep_plugin() throws.
/// A path that a file gives is relative to the folder of that file, as `base` is, and becomes so in `source`; where
/// nothing is there, and on the command line, it is relative to the current folder.
std::shared_ptr<const Parts> with_plugins(std::shared_ptr<const Parts> parts, ConfigSource& source);

}  // namespace lockstep::train
