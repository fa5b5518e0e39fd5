// Comma-separated lists on the command line.
#pragma once

#include <set>
#include <string_view>
#include <vector>

namespace lockstep::cluster {

/// The parts between commas, empty ones too: "a,,b" has three, "" has one.
std::vector<std::string_view> split_at_commas(std::string_view text);

/// "0,2" as `--local_ranks_filter` takes it; nothing for "". Error(invalid_argument) naming `flag` when a part is not a
/// number of at least 0.
std::set<int> parse_local_ranks(std::string_view flag, std::string_view text);

}  // namespace lockstep::cluster
