// Lists of signal names, as `--signals-to-handle` takes them.
#pragma once

#include <string_view>
#include <vector>

namespace lockstep::cluster {

/// "SIGTERM,SIGINT" as numbers. Error(invalid_argument) naming `flag` for a word that is not the name of a signal that
/// a launcher can take as a request to end.
std::vector<int> parse_signals(std::string_view flag, std::string_view text);

}  // namespace lockstep::cluster
