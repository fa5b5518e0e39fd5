// Memory by the machine (MemAvailable), by the limits of the process (setrlimit) and by those of its control groups;
// and the kernel's counters of processes that it killed.
#include <lockstep/base/available_memory.h>
#include <lockstep/base/error.h>

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

// The number on the line that begins with `name`, as in "MemAvailable:   123 kB" or "active_file 456".
std::optional<std::uint64_t> field(const std::filesystem::path& file, std::string_view name) {
  std::ifstream lines(file);
  std::string word;
  std::uint64_t value = 0;
  while (lines >> word) {
    if (word == name && lines >> value) return value;
    lines.clear();
    lines.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

// The number in `file`; nullopt also for "max", which means no limit.
std::optional<std::uint64_t> number_in(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::uint64_t value = 0;
  return stream >> value ? std::optional(value) : std::nullopt;
}

// The bytes that the limit of one control group leaves. Its page cache counts as used, but can be dropped.
std::uint64_t left_in_group(const std::filesystem::path& folder) {
  const auto limit = number_in(folder / "memory.max");
  const auto used = number_in(folder / "memory.current");
  if (!limit || !used) return kNoLimit;
  const std::uint64_t cached = field(folder / "memory.stat", "inactive_file").value_or(0) +
                               field(folder / "memory.stat", "active_file").value_or(0);
  const std::uint64_t held = *used - std::min(cached, *used);
  return *limit - std::min(held, *limit);
}

// The bytes that a limit of this process leaves; /proc gives the used amount in kB under `name`.
std::uint64_t left_of_own_limit(int limit, const std::filesystem::path& proc, std::string_view name) {
  rlimit own{};
  const auto used = field(proc / "self" / "status", name);
  if (::getrlimit(static_cast<__rlimit_resource>(limit), &own) != 0 || own.rlim_cur == RLIM_INFINITY || !used) {
    return kNoLimit;
  }
  return own.rlim_cur - std::min<std::uint64_t>(*used * 1024, own.rlim_cur);
}

/// Version 1 reports a number near the largest where no limit is set.
constexpr std::uint64_t kMostMemory = std::uint64_t{1} << 60;

/// The number of bytes in a file; nullopt also for "max", which means no limit.
std::optional<std::uint64_t> bytes_in(const std::filesystem::path& file) {
  const auto bytes = number_in(file);
  return bytes && *bytes < kMostMemory ? bytes : std::nullopt;
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
  const auto kills = field(whole ? root / *group / version.events : root / version.events, "oom_kill");
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

std::uint64_t available_memory(const std::filesystem::path& proc, const std::filesystem::path& cgroup) {
  std::uint64_t available = kNoLimit;
  if (const auto kib = field(proc / "meminfo", "MemAvailable:")) available = *kib * 1024;
  available = std::min(available, left_of_own_limit(RLIMIT_DATA, proc, "VmData:"));
  available = std::min(available, left_of_own_limit(RLIMIT_AS, proc, "VmSize:"));
  // The limits of the parent groups apply, too.
  std::filesystem::path folder = cgroup;
  available = std::min(available, left_in_group(folder));
  for (const auto& part : group_of(proc, kTwo).value_or("")) {
    folder /= part;
    available = std::min(available, left_in_group(folder));
  }
  return available;
}

bool lacks_address_space(std::uint64_t least) { return left_of_own_limit(RLIMIT_AS, "/proc", "VmSize:") < least; }

void require_address_space(std::uint64_t least) {
  if (!lacks_address_space(least)) return;
  rlimit own{};
  ::getrlimit(RLIMIT_AS, &own);
  constexpr std::uint64_t kMb = 1'000'000;
  fail(ErrorKind::environment, "memory",
       "the address space of a process is limited to {} MB (ulimit -v), and less than {} MB are left for libtorch and "
       "its libraries; raise the limit (ulimit -v unlimited), and limit memory with a control group instead, e.g. "
       "systemd-run "
       "-p MemoryMax=4G",
       own.rlim_cur / kMb, least / kMb);
}

std::optional<MemoryAccount> memory_account(const std::filesystem::path& proc, const std::filesystem::path& cgroup) {
  for (const Version* version : {&kTwo, &kOne}) {
    if (auto account = account_of(proc, cgroup, *version)) return account;
  }
  const auto kills = field(proc / "vmstat", "oom_kill");
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
