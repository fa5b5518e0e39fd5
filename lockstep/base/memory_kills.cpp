// The kernel's counters of processes that it killed for lack of memory.
#include <lockstep/base/memory_kills.h>

#include <fmt/format.h>

#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>
#include <vector>

namespace lockstep {
namespace {

/// Version 1 reports a number near the largest where no limit is set.
constexpr std::uint64_t kMostMemory = std::uint64_t{1} << 60;

/// The number behind `name` in lines of names and numbers.
std::optional<std::uint64_t> count_in(const std::filesystem::path& file, std::string_view name) {
  std::ifstream lines(file);
  std::string word;
  std::uint64_t value = 0;
  while (lines >> word >> value) {
    if (word == name) return value;
  }
  return std::nullopt;
}

/// The number of bytes in a file; nullopt also for "max", which means no limit.
std::optional<std::uint64_t> bytes_in(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::uint64_t value = 0;
  return stream >> value && value < kMostMemory ? std::optional(value) : std::nullopt;
}

/// The files of one version of control groups.
struct Version {
  const char* folder;  ///< below the mount point
  const char* events;
  const char* limit;
  const char* peak;
};
constexpr Version kTwo = {"", "memory.events", "memory.max", "memory.peak"};
constexpr Version kOne = {"memory", "memory.oom_control", "memory.limit_in_bytes", "memory.max_usage_in_bytes"};

/// The path, without its first slash, of this process's group in a line such as "0::/user.slice/job" or
/// "4:memory:/job".
std::optional<std::filesystem::path> group_of(const std::filesystem::path& proc, const Version& version) {
  std::ifstream lines(proc / "self" / "cgroup");
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos || line.compare(second, 2, ":/") != 0) continue;
    std::istringstream names(line.substr(first + 1, second - first - 1));
    bool found = names.str() == version.folder;
    for (std::string name; std::getline(names, name, ',');) found = found || name == version.folder;
    if (found) return line.substr(second + 2);  // the path follows the slash
  }
  return std::nullopt;
}

std::optional<MemoryAccount> account_of(const std::filesystem::path& proc, const std::filesystem::path& cgroup,
                                        const Version& version) {
  const auto group = group_of(proc, version);
  if (!group) return std::nullopt;
  const auto root = *version.folder != '\0' ? cgroup / version.folder : cgroup;
  // In a container the path may be the host's, while only the group itself is mounted.
  const bool whole = std::filesystem::exists(root / *group / version.events);
  const auto kills = count_in(whole ? root / *group / version.events : root / version.events, "oom_kill");
  if (!kills) return std::nullopt;
  MemoryAccount account{.kills = *kills};
  auto folder = root;
  const auto look = [&] {
    const auto limit = bytes_in(folder / version.limit);
    if (!limit || (account.limit && *account.limit < *limit)) return;
    account.limit = limit;
    account.peak = bytes_in(folder / version.peak);
  };
  look();
  for (const auto& part : whole ? *group : std::filesystem::path()) {
    folder /= part;
    look();
  }
  return account;
}

}  // namespace

std::optional<MemoryAccount> memory_account(const std::filesystem::path& proc, const std::filesystem::path& cgroup) {
  for (const Version* version : {&kTwo, &kOne}) {
    if (auto account = account_of(proc, cgroup, *version)) return account;
  }
  const auto kills = count_in(proc / "vmstat", "oom_kill");
  if (!kills) return std::nullopt;
  return MemoryAccount{.kills = *kills, .of_machine = true};
}

std::string describe_memory_kill(const MemoryAccount& account) {
  constexpr std::uint64_t kMiB = 1 << 20;
  std::string text = account.of_machine ? "the kernel killed a process of this machine for lack of memory at that time"
                                        : "the kernel killed it for lack of memory";
  if (!account.limit) return text;
  text += fmt::format(" (limit {} MiB", *account.limit / kMiB);
  if (account.peak) text += fmt::format(", peak {} MiB", *account.peak / kMiB);
  return text + ")";
}

}  // namespace lockstep
