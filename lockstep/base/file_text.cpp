// A whole file as a string, through an input stream; nullopt when it cannot be read.
#include <lockstep/base/file_text.h>

#include <fstream>
#include <sstream>
#include <utility>

namespace lockstep {

std::optional<std::string> read_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  std::ostringstream text;
  if (in.peek() != std::ifstream::traits_type::eof()) text << in.rdbuf();
  if (in.bad() || text.bad()) return std::nullopt;
  return std::move(text).str();
}

}  // namespace lockstep
