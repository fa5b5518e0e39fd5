// The host name, a host identity made of the boot id and the network and user namespaces (or LOCKSTEP_HOST_ID), the
// resident memory in /proc, the CPUs in the affinity mask, and the controlling terminal.
#include <lockstep/base/environment.h>
#include <lockstep/base/files.h>
#include <lockstep/base/text.h>
#include <lockstep/base/this_host.h>

#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string_view>

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

std::string given_host_identity() { return find(current_environment(), "LOCKSTEP_HOST_ID").value_or(""); }

std::string host_identity() {
  if (auto given = given_host_identity(); !given.empty()) return given;
  const auto of = [](const char* file) { return namespace_id(file).value_or("none"); };
  return boot_id() + "/" + of("/proc/self/ns/net") + "/" + of("/proc/self/ns/user");
}

// The second number of /proc/PID/statm counts resident pages.
std::optional<std::uint64_t> resident_bytes(std::int64_t pid) {
  const auto text = read_file(fmt::format("/proc/{}/statm", pid));
  if (!text) return std::nullopt;
  const auto begin = text->find(' ') + 1;
  const auto pages = parse_integer(std::string_view(*text).substr(begin, text->find(' ', begin) - begin));
  if (begin == 0 || !pages || *pages <= 0) return std::nullopt;
  return static_cast<std::uint64_t>(*pages) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

int usable_cpus() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  return sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
}

bool is_terminal_of_session(int fd, const Environment& environment) {
  const auto kind = find(environment, "TERM").value_or("");
  if (kind.empty() || kind == "dumb" || ::isatty(fd) != 1) return false;
  return ::tcgetsid(fd) == ::getsid(0);  // tcgetsid fails for a terminal that is not the controlling terminal
}

}  // namespace lockstep
