// Whole files as bytes, plain or gzip-compressed.
#pragma once

#include <lockstep/data/format.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::data {

using Bytes = std::vector<std::uint8_t>;

/// The content of `file`. nullopt, and a problem of kind io with the system's reason, when it is not a readable regular
/// file. Also nullopt with a problem when the available memory cannot hold it `copies` times, which is the number of
/// copies that its reader makes.
std::optional<Bytes> read_file_bytes(const std::filesystem::path& file, int copies, Problems& problems);

/// The first `most` bytes of the content of a .gz file (RFC 1952); fewer when it is shorter or damaged.
Bytes gunzip_begin(std::span<const std::uint8_t> compressed, std::size_t most);

/// The content of a .gz file (several members allowed). nullopt and a problem when the stream is damaged, cut short,
/// followed by other bytes, or longer than `most` bytes, the size that its header gives. `file` is for the message.
std::optional<Bytes> gunzip(std::span<const std::uint8_t> compressed, std::size_t most,
                            const std::filesystem::path& file, Problems& problems);

}  // namespace lockstep::data
