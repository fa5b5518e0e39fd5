// The selection of picture files in a folder: one rule for all data sets of folders.
#pragma once

#include <lockstep/data/files/counted_remarks.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

/// Whether a name is one of files and folders that programs leave beside the user's own: names that begin with a dot
/// (.ipynb_checkpoints, macOS's ._a.jpg), and macOS's __MACOSX.
bool is_left_by_programs(const std::filesystem::path& path);

enum class FolderDepth { itself, all_below };

/// The pictures of a folder, sorted by the bytes of their paths. Entries with is_left_by_programs() are skipped with
/// all their content, and so are files without the extension of a picture; `remarks` counts them and names the first
/// ones. Error(io) naming `key` where the folder cannot be listed.
std::vector<std::string> pictures_in(const std::filesystem::path& folder, FolderDepth depth, std::string_view key,
                                     CountedRemarks& remarks);

/// The names of the folders in a folder, sorted by bytes, by the same rule. Error(io) as above.
std::vector<std::string> folders_in(const std::filesystem::path& folder, std::string_view key, CountedRemarks& remarks);

}  // namespace lockstep::data
