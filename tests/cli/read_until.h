// What a running program says, up to certain words.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <unistd.h>

#include <array>
#include <string>

namespace lockstep::test {

/// Reads until `words` were said or the stream ended; what was read.
inline std::string read_until(const UniqueFd& stream, const std::string& words) {
  std::string text;
  std::array<char, 4096> buffer{};
  while (text.find(words) == std::string::npos) {
    const ssize_t count = ::read(stream.get(), buffer.data(), buffer.size());
    if (count <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return text;
}

}  // namespace lockstep::test
