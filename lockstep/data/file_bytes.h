// Whole files as bytes, plain or gzip-compressed.
#pragma once

#include <lockstep/data/problem.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::data {

using Bytes = std::vector<std::uint8_t>;

/// nullopt, and a problem of kind io with the system's reason, when `file` is no readable regular file.
std::optional<Bytes> read_file_bytes(const std::filesystem::path& file, Problems& problems);

/// The content of a .gz file (RFC 1952, several members allowed). nullopt and a problem when the stream is damaged, cut
/// short, followed by other bytes, or longer than 4 GiB when unpacked. `file` is for the message.
std::optional<Bytes> gunzip(std::span<const std::uint8_t> compressed, const std::filesystem::path& file,
                            Problems& problems);

}  // namespace lockstep::data
