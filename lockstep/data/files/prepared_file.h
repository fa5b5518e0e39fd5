// Files that are computed once from a data file and stored beside it, such as an index of its lines.
#pragma once

#include <lockstep/base/atomic_file.h>
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

}  // namespace lockstep::data
