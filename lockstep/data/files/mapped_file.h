// A memory-mapped file with random access. It may be larger than the machine's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::data {

/// The bytes of a file from the time when it was opened. Thread-safe. The file must not become shorter while it is
/// mapped: the kernel ends a process that reads beyond the end (SIGBUS).
class MappedFile {
 public:
  /// Error(config) naming `key` when there is no such file or it is a folder; Error(io) when it cannot be read.
  MappedFile(const std::filesystem::path& file, std::string_view key);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::uint8_t> bytes() const { return {bytes_, size_}; }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  const std::uint8_t* bytes_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace lockstep::data
