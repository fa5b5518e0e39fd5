// The folder of a sharded checkpoint during a new save.
#pragma once

#include <lockstep/state/sharded/index.h>

#include <cstdint>
#include <filesystem>

namespace lockstep::state {

/// Makes the folder where there is none and returns a number that no file in it has. Error(io).
std::int64_t next_save_number(const std::filesystem::path& folder);

/// Writes an empty file of a random name, by which other processes can check that they see the same folder. The next
/// finished save removes it if its writer did not. Error(io).
std::filesystem::path put_mark(const std::filesystem::path& folder, std::int64_t save);

/// Writes the index, which makes the save the folder's checkpoint, and then removes the files of all other saves,
/// including those of killed ones. Error(io) leaves the former checkpoint unchanged.
void finish_save(const std::filesystem::path& folder, const ShardedIndex& index);

/// Removes a file of a save that failed, unless the folder's index is of that save (it was written, and a later step
/// failed). Never throws.
void take_back(const std::filesystem::path& folder, std::int64_t save, const std::string& file) noexcept;

}  // namespace lockstep::state
