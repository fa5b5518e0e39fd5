// The pictures and labels of LMDB databases in the layout of CRNN's data.
#pragma once

#include <lockstep/data/files/lmdb.h>
#include <lockstep/data/files/picture.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::samples {

/// Keys of a database: `num-samples`, a decimal number n as text; for i from 1 to n `image-%09d`, an encoded picture,
/// and `label-%09d`, UTF-8. Thread-safe.
class LmdbPictures {
 public:
  /// The database of a folder, or, if it has none, all databases below it, concatenated in the order of their paths.
  /// Error(config), naming `key_of_path`, for a folder without a database; Error(data) for a damaged one, and for one
  /// whose num-samples is not a number or is larger than the number of its keys.
  LmdbPictures(const std::filesystem::path& path, std::string_view key_of_path);

  std::int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }

  // 0 <= index < size(). Error(data) naming file and key for a missing or damaged entry.
  data::Picture picture(std::int64_t index, const data::DecodeOptions& options) const;
  std::string_view label(std::int64_t index) const;

  // For messages, such as "image-000000001 of data.mdb".
  std::string picture_name(std::int64_t index) const;
  std::string label_name(std::int64_t index) const;
  /// The picture's path, as if the database were a folder: data.mdb/image-000000001.
  std::string picture_path(std::int64_t index) const;

 private:
  std::pair<const data::LmdbView*, std::int64_t> place_of(std::int64_t index) const;

  std::vector<data::LmdbFile> files_;
  std::vector<std::int64_t> ends_;  // samples of the files up to and with each
};

}  // namespace lockstep::samples
