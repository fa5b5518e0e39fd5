// What lies on the disk where c10d's FileStore is to read.
#pragma once

#include <filesystem>

namespace lockstep::detail {

/// Error(io) unless there is no such file yet, or it holds what a FileStore wrote, from its first byte to its last: a
/// FileStore reads anything else without end.
void require_store_file(const std::filesystem::path& path);

}  // namespace lockstep::detail
