// A file that grows by whole records.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace lockstep::train {

/// Records are collected in memory and written together. Whenever a write fails, the file ends with the last record
/// that was written before it: records collected since then are lost, and later records follow that one. Only a process
/// that is killed within a write leaves a part of a record. Not thread-safe.
class GrowingFile {
 public:
  /// `fd` is a file opened with O_APPEND, of whole records; `path` and `where` are for messages.
  GrowingFile(UniqueFd fd, std::filesystem::path path, std::string where);
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;
  /// Flushes; a failure is not reported.
  ~GrowingFile();

  /// Adds a record; writes when enough records are collected. Error(io) like flush().
  void add(std::string_view record);

  /// Passes all records to the system, so that they outlive this process. Error(io) with the file and the reason.
  void flush();

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  int write_all() noexcept;

  UniqueFd fd_;
  std::filesystem::path path_;
  std::string where_;
  std::string waiting_;
  std::uint64_t written_ = 0;
};

}  // namespace lockstep::train
