// Which files of a folder are pictures: one rule for all data sets of folders.
#pragma once

#include <lockstep/data/files/counted_remarks.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

/// Whether programs leave such files and folders beside a user's own: names that begin with a dot (.ipynb_checkpoints,
/// macOS's ._a.jpg), and macOS's __MACOSX.
bool is_left_by_programs(const std::filesystem::path& path);

enum class FolderDepth { itself, all_below };

/// The pictures of a folder, sorted by the bytes of their paths. What is_left_by_programs() is passed over with all
/// that is in it, and so are files that are no pictures by their names; `remarks` has how many, and the first ones.
/// Error(io) naming `key` where the folder cannot be listed.
std::vector<std::string> pictures_in(const std::filesystem::path& folder, FolderDepth depth, std::string_view key,
                                     CountedRemarks& remarks);

/// The names of the folders in a folder, sorted by bytes, by the same rule. Error(io) as above.
std::vector<std::string> folders_in(const std::filesystem::path& folder, std::string_view key, CountedRemarks& remarks);

}  // namespace lockstep::data
