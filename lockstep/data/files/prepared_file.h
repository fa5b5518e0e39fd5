// Files that are computed once from a data file and stored beside it; and lines of a file by such an index of them.
#pragma once

#include <lockstep/base/files.h>
#include <lockstep/data/files/mapped_file.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

/// Numbers of 64 bits that were computed from a file.
class PreparedNumbers {
 public:
  explicit PreparedNumbers(MappedFile file);
  std::span<const std::uint64_t> numbers() const;

 private:
  MappedFile file_;
};

/// The numbers that `make` computes from `source`, read from `prepared`. If that file is missing, or was made from a
/// source of another size or time, or for another `purpose` (one line), one of the calling processes makes it, and the
/// other processes wait: it holds a lock on `source`, which is released when the process ends. The file appears
/// atomically.
///
/// Error(io) naming `key`, the configuration key of the file's place, when the file cannot be written; errors of
/// `make`.
PreparedNumbers prepare_numbers(const std::filesystem::path& source, const std::filesystem::path& prepared,
                                std::string_view purpose, std::string_view key,
                                const std::function<std::vector<std::uint64_t>()>& make);

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
