#include <lockstep/base/sha256.h>
#include <lockstep/doctor/probe.h>

#include <array>
#include <fstream>
#include <system_error>

namespace lockstep::doctor {
namespace {

constexpr std::uintmax_t kLargest = 64 << 20;

std::vector<std::string> own_arguments() {
  std::vector<std::string> arguments;
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  for (std::string one; std::getline(in, one, '\0');) arguments.push_back(one);
  return arguments;
}

}  // namespace

std::string probe_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in.is_open()) return "";
  Sha256 hash;
  std::array<char, 65536> buffer{};
  do {
    in.read(buffer.data(), buffer.size());
    hash.update(std::string_view(buffer.data(), static_cast<std::size_t>(in.gcount())));
  } while (in.good());
  return in.eof() ? hash.hex() : "";
}

std::map<std::string, std::string> probe_command_line() {
  std::map<std::string, std::string> found = {{"this program", probe_file("/proc/self/exe")}};
  const auto arguments = own_arguments();
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const auto& text = arguments[i];
    const auto equals = text.starts_with('-') ? text.find('=') : std::string::npos;
    const auto name = equals == std::string::npos ? text : text.substr(equals + 1);
    std::error_code error;
    const bool is_file = std::filesystem::is_regular_file(name, error);
    if (is_file && std::filesystem::file_size(name, error) <= kLargest) found[name] = probe_file(name);
  }
  return found;
}

}  // namespace lockstep::doctor
