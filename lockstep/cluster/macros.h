// Replacement of "${name}" in arguments and prefixes.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace lockstep::cluster {

using Macros = std::map<std::string, std::string, std::less<>>;

/// `text` with "${name}" replaced for each name in `macros`; others are left as they are. Values are not read again.
std::string replace_macros(std::string_view text, const Macros& macros);

}  // namespace lockstep::cluster
