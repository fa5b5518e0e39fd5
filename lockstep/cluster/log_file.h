// The log file of one output stream of a rank.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::cluster {

/// Bytes are written at once and unchanged. The first write that fails (a full disk) is the last one, so that the
/// file has no holes.
class LogFile {
 public:
  /// Error(io) when it cannot be made. An old file is emptied.
  explicit LogFile(std::filesystem::path path);

  /// False when the file has not got all of it.
  bool append(std::string_view bytes);

  /// Which file failed, and why: returned once, after a write failed.
  std::optional<std::string> take_failure();

 private:
  std::filesystem::path path_;
  UniqueFd fd_;  ///< closed after a failure
  std::optional<std::string> failure_;
};

}  // namespace lockstep::cluster
