// A shared library as a file: its sections and symbols, read without loading it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

/// A 64-bit ELF file for this machine. Reads only the requested parts, and checks every number in the file.
class ElfFile {
 public:
  /// Error(io) for a file that cannot be read, Error(data) for one that is not a shared library for this machine.
  /// Messages are without the file's name.
  explicit ElfFile(const std::filesystem::path& path);

  /// The bytes of the section of that name; nullopt without one. Error(data) for a damaged file.
  std::optional<std::string> section(std::string_view name);

  /// Whether the library exports that symbol. Error(data) for a damaged file.
  bool exports(std::string_view symbol);

 private:
  struct Section {
    std::uint32_t name;  ///< offset in the section of names
    std::uint32_t type;
    std::uint32_t link;
    std::uint64_t offset;
    std::uint64_t size;
  };

  std::string bytes(std::uint64_t offset, std::uint64_t size);
  std::string content(const Section& section);
  void read_sections(std::uint64_t offset, std::uint64_t count, std::uint64_t names);

  std::ifstream file_;
  std::uint64_t size_ = 0;
  std::vector<Section> sections_;
  std::string names_;
};

}  // namespace lockstep::train
