// Checks and removal of the file of c10d's FileStore.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep::detail {

/// Error(io) unless there is no such file yet, or it holds what a FileStore wrote, from its first byte to its last: a
/// FileStore reads anything else without end.
void require_store_file(const std::filesystem::path& path);

/// Removes the file, unless `key` has another value in it than `value`: no process can write another one in between.
void remove_store_file(const std::filesystem::path& path, const std::string& key, const std::string& value);

}  // namespace lockstep::detail
