// Parsers of Slurm's host lists and tasks-per-node lists. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

/// "n[01-03,7]x,other" -> n01x n02x n03x n7x other: zero padding is kept, several brackets in a name give all
/// combinations, the last bracket varying fastest. nullopt for text that breaks the grammar or names more than 65,536
/// hosts.
std::optional<std::vector<std::string>> expand_host_list(std::string_view text);

/// "8(x2),4" -> 8 8 4. nullopt for text that breaks the grammar or names more than 65,536 nodes.
std::optional<std::vector<int>> expand_tasks_per_node(std::string_view text);

}  // namespace lockstep::detail
