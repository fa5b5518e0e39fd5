// LMDB files, read by their format: data.mdb of version 1 with 64-bit numbers in little-endian order, which is what
// LMDB writes on all common machines.
//
// The library of LMDB follows the page numbers of a file unchecked, so that a damaged file ends the process. Here each
// page number, offset and size is compared with the file before it is used, and damage is an error that names the key.
#pragma once

#include <lockstep/data/files/mapped_file.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::data {

/// The keys and values of a file's main database in memory. `name` is for messages. Values lie within `bytes`.
/// Thread-safe.
class LmdbView {
 public:
  /// Error(data) when the bytes are not such a file, are fewer than its pages, or its database has sorted duplicates,
  /// whole numbers as keys or keys in reverse order.
  LmdbView(std::span<const std::uint8_t> bytes, std::string name);

  /// The value of a key; nullopt without one. Error(data) naming the key if the pages on the path to it are damaged.
  std::optional<std::span<const std::uint8_t>> find(std::string_view key) const;

  std::uint64_t entries() const { return entries_; }
  const std::string& name() const { return name_; }

 private:
  struct Meta;
  std::optional<Meta> read_meta(std::uint64_t offset) const;

  std::span<const std::uint8_t> bytes_;
  std::string name_;
  std::uint64_t page_size_ = 0;
  std::uint64_t root_ = 0;
  std::uint64_t depth_ = 0;
  std::uint64_t entries_ = 0;
};

/// A database on the disk, mapped and not locked: no process may write to it at the same time.
class LmdbFile {
 public:
  /// `path`: data.mdb, or the folder that holds it. Errors as above, and Error(config) naming `key_of_path` if it is
  /// neither.
  LmdbFile(const std::filesystem::path& path, std::string_view key_of_path);

  const LmdbView& view() const { return view_; }

 private:
  MappedFile file_;
  LmdbView view_;
};

}  // namespace lockstep::data
