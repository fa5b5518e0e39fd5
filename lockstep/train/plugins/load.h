// Plugins: shared libraries that a configuration names, and that add parts.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/train/parts.h>

#include <memory>
#include <string>
#include <vector>

namespace lockstep::train {

/// `parts`, and those of the plugins that the key `plugins` of `source` names. The libraries stay loaded until the
/// process ends, because their objects may exist until then. Error(config) with file and line, and the plugin's name,
/// before any code of it runs: for a file that is missing or is not a shared library, that does not export
/// lockstep_plugin(), was built with another Lockstep or libtorch (both versions are named), or uses a symbol that no
/// library has; then for a part that already exists, and for exceptions of lockstep_plugin(). A path in a file is
/// relative to the folder of that file, like `base`, and is changed so in `source`. If there is no such file, and on
/// the command line, a path is relative to the current folder.
std::shared_ptr<const Parts> with_plugins(std::shared_ptr<const Parts> parts, ConfigSource& source);

/// The same for the plugins that a program names; their paths become absolute.
std::shared_ptr<const Parts> with_plugins(std::shared_ptr<const Parts> parts, std::vector<std::string>& plugins);

}  // namespace lockstep::train
