// The folders in a folder of pictures, by the same rule as its pictures (items.h).
#pragma once

#include <lockstep/data/files/items.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

/// The names of the folders in a folder, sorted by bytes, without those of is_left_by_programs(), which `remarks`
/// counts. Error(io) naming `key` where the folder cannot be listed.
std::vector<std::string> folders_in(const std::filesystem::path& folder, std::string_view key, CountedRemarks& remarks);

}  // namespace lockstep::data
