// A folder that is removed, with all its contents, at the end of the scope.
#pragma once

#include <filesystem>
#include <string_view>

namespace lockstep {

class TemporaryFolder {
 public:
  /// Creates `<parent>/<prefix>-XXXXXX`, accessible for this user only; `parent` defaults to the system's temporary
  /// folder (TMPDIR). Error(io) when it cannot be created.
  explicit TemporaryFolder(std::string_view prefix = "lockstep", const std::filesystem::path& parent = {});
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&& other) noexcept;
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const noexcept { return path_; }

  /// Keeps the folder on disk; returns its path.
  std::filesystem::path release() noexcept;

 private:
  void remove() noexcept;

  std::filesystem::path path_;
};

}  // namespace lockstep
