// A reader of whole files that compares the size with the available memory first.
#include <lockstep/base/available_memory.h>
#include <lockstep/data/file_bytes.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <system_error>

namespace lockstep::data {

std::optional<Bytes> read_file_bytes(const std::filesystem::path& file, int copies, Problems& problems) {
  const auto give_up = [&](std::string rule) {
    problems.push_back({file, -1, std::move(rule), ErrorKind::io});
    return std::nullopt;
  };
  std::error_code code;
  const auto status = std::filesystem::status(file, code);
  if (code) return give_up(fmt::format("cannot be accessed: {}", code.message()));
  if (!std::filesystem::is_regular_file(status)) return give_up("is not a regular file");
  const std::uintmax_t size = std::filesystem::file_size(file, code);
  if (code) return give_up(fmt::format("cannot be accessed: {}", code.message()));

  if (const auto available = available_memory(); size > available / static_cast<std::uint64_t>(copies)) {
    problems.push_back(
        {file, -1,
         fmt::format("has {} bytes; reading it takes {} times that in memory, and {} bytes are available", size, copies,
                     available)});
    return std::nullopt;
  }

  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return give_up(fmt::format("cannot be opened: {}", std::generic_category().message(errno)));
  Bytes bytes(size);
  stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
  if (!stream) {
    return give_up(fmt::format("reading stopped after {} of {} bytes: {}", stream.gcount(), size,
                               std::generic_category().message(errno)));
  }
  return bytes;
}

}  // namespace lockstep::data
