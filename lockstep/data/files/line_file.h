// A text file as an array of lines. A line is read only on access.
#pragma once

#include <lockstep/data/files/mapped_file.h>
#include <lockstep/data/files/prepared_file.h>

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace lockstep::data {

/// The lines of a file, by an index of every 32nd, which is computed when the file is opened for the first time and
/// kept in `cache` as NAME.lines (8 bytes for 32 lines). Thread-safe.
class LineFile {
 public:
  /// Errors as of MappedFile with `key`, and of prepare_numbers with `cache_key`.
  LineFile(const std::filesystem::path& file, std::string_view key, const std::filesystem::path& cache,
           std::string_view cache_key);

  /// A last line without a line end counts, an empty one after the last line end does not.
  std::int64_t size() const { return lines_; }
  /// Line `index`, from 0, without its end.
  std::string_view line(std::int64_t index) const;
  const std::string& name() const { return file_.name(); }

 private:
  std::string_view text() const;

  MappedFile file_;
  PreparedNumbers index_;  // the number of lines, then the offsets of lines 0, 32, 64, ...
  std::int64_t lines_;
};

}  // namespace lockstep::data
