// A file's bytes.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace lockstep::test {

/// Empty where the file cannot be read, as one in /proc of a process that has just ended: no exception, unlike with
/// iterators over the stream's buffer.
inline std::string read_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace lockstep::test
