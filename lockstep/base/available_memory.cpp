// The minimum over MemAvailable, the process's limits (setrlimit) and the limits of its control groups (cgroup v2).
#include <lockstep/base/available_memory.h>
#include <lockstep/base/error.h>

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

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

// The group's path in a line such as "0::/user.slice/job".
std::string own_group(const std::filesystem::path& proc) {
  std::ifstream lines(proc / "self" / "cgroup");
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("0::/")) return line.substr(4);
  }
  return "";
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

}  // namespace

std::uint64_t available_memory(const std::filesystem::path& proc, const std::filesystem::path& cgroup) {
  std::uint64_t available = kNoLimit;
  if (const auto kib = field(proc / "meminfo", "MemAvailable:")) available = *kib * 1024;
  available = std::min(available, left_of_own_limit(RLIMIT_DATA, proc, "VmData:"));
  available = std::min(available, left_of_own_limit(RLIMIT_AS, proc, "VmSize:"));
  // The limits of the parent groups apply, too.
  std::filesystem::path folder = cgroup;
  available = std::min(available, left_in_group(folder));
  for (const auto& part : std::filesystem::path(own_group(proc))) {
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

}  // namespace lockstep
