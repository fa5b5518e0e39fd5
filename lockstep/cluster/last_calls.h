// The last calls of several ranks side by side: the first call that not all of them have made, and which ranks are
// missing from it. Pure, but the reader of a folder.
#pragma once

#include <lockstep/base/status_page.h>

#include <chrono>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace lockstep::cluster {

/// The last `most` calls of each of the `most_groups` groups with the newest calls, for messages between launchers.
std::vector<GroupCalls> newest_calls(const std::vector<GroupCalls>& groups, std::size_t most, std::size_t most_groups);

/// Lines, each with its end, about each group in which not all of `ranks` have made the same calls: the first call that
/// is missing on some of them, which ranks have made it and since when they are in it, and what the others did last.
/// Messages are not compared, as they have two sides only. Empty where the ranks agree, or fewer than two are given.
/// Collectives with one number and different operations are named in the same way. Groups in which no rank has waited
/// for `least_wait` are left out.
///
///     group "world": not all ranks have made all_reduce 41 (16 KB of float32, the gradient of fc2.weight (bucket 0))
///       ranks 0, 1, 3 are in it, since 12.1 s
///       rank 2 has not made it; its last call was all_reduce 40, which it had completed 12.3 s before
std::string compare_calls(std::span<const RankCalls> ranks, std::chrono::milliseconds least_wait = {});

/// The calls of all ranks whose status pages are in this folder, or in folders below it (a folder of logs of `lockstep
/// run`), until now. Of several starts in it, the last. Error(io) when there is no such folder, Error(invalid_argument)
/// when no page is in it.
std::vector<RankCalls> read_calls_in(const std::filesystem::path& folder);

/// The last `most` calls of each rank as a table, for `lockstep status --calls`.
std::string table_of_calls(std::span<const RankCalls> ranks, std::size_t most);

}  // namespace lockstep::cluster
