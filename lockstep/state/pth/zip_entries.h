// The entries of a zip archive as torch.save writes it: stored, never compressed. Works on any source of bytes, needs
// no libtorch.
//
// The format is that of PKWARE's APPNOTE.TXT: entries, each after its own header; then the directory of all entries;
// then, if 32 bits do not suffice, the zip64 end record; then the end record. Sizes are taken from the directory: the
// headers before the entries may lack them (flag 3).
#pragma once

#include <lockstep/state/pth/pth_error.h>

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>

namespace lockstep::state {

/// Bytes with random access.
struct ByteSource {
  std::uint64_t size = 0;
  std::function<void(std::uint64_t from, std::span<char> into)> read;  ///< only within `size`
};

struct ZipEntry {
  std::uint64_t begin = 0;  ///< offset of its bytes in the file
  std::uint64_t size = 0;   ///< number of these bytes
  std::uint32_t crc = 0;    ///< CRC-32 of its bytes
  bool compressed = false;  ///< it cannot be read
};

using ZipEntries = std::map<std::string, ZipEntry, std::less<>>;

/// The entries by name. They lie within the file and do not overlap, so that reading each once takes no more memory
/// than the file. Error(data) for an invalid archive: truncated, encrypted, or with a repeated name.
ZipEntries read_zip_entries(const ByteSource& source, const PthError& wrong);

/// Error(data) for an entry that is compressed, which torch.save never does; `name` is for the message.
void require_stored(const ZipEntry& entry, std::string_view name, const PthError& wrong);

/// Reads an entry into memory of its size. Error(data) if it is compressed or its checksum is wrong.
void read_zip_entry(const ByteSource& source, const ZipEntry& entry, std::span<char> into, std::string_view name,
                    const PthError& wrong);

}  // namespace lockstep::state
