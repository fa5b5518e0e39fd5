#include <lockstep/base/this_host.h>

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>

namespace lockstep {

std::optional<std::string> host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return std::nullopt;
  return name.data();
}

std::string boot_id() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

std::optional<std::string> namespace_id(const char* file) {
  struct stat info {};
  if (::stat(file, &info) != 0) return std::nullopt;
  return std::to_string(info.st_ino);
}

}  // namespace lockstep
