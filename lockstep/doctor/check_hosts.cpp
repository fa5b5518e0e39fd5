// Checks of what is set and installed on hosts: each host's limits and settings (CPUs, open files, shared memory,
// proxies), and builds and files, which must be the same on all ranks.
#include <lockstep/doctor/checks.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace lockstep::doctor {
namespace {

constexpr auto kSharedMemory = "shared_memory";
constexpr std::uint64_t kMiB = 1U << 20;
constexpr std::uint64_t kDockerDefault = 64 * kMiB;

// The store has one connection to each rank, and tcp has one between every two ranks; the constant is for libraries,
// the program, its data and logs.
std::uint64_t needed(const JobFacts& job) { return 192 + 2 * static_cast<std::uint64_t>(job.size); }

Finding none(const JobFacts& job, const Facts& host) {
  return {Severity::error, kSharedMemory, place(job, host),
          fmt::format("ranks of this host cannot share memory: memfd_create: {}", host.memfd_problem),
          "allow the call (seccomp profile of the container), or set LOCKSTEP_BACKEND=tcp"};
}

Finding small(const JobFacts& job, const Facts& host) {
  return {Severity::warning, kSharedMemory, place(job, host),
          fmt::format("/dev/shm has {} MiB. Lockstep does not use it, but MPI, NCCL and Python's data loaders do",
                      host.shm_bytes / kMiB),
          "in a container: --shm-size=8g or --ipc=host; else: mount -o remount,size=8g /dev/shm"};
}

constexpr auto kVersions = "versions";

// Adds a finding about a difference between rank 0 and another rank, once for each host.
void add(const JobFacts& job, const Facts& other, Severity severity, const std::string& what, const std::string& fix,
         std::vector<Finding>& findings) {
  const bool told = std::ranges::any_of(findings, [&](const Finding& one) { return one.what == what; });
  if (told) return;
  findings.push_back(
      {severity, kVersions, fmt::format("{} -> {}", place(job, job.ranks.front()), place(job, other)), what, fix});
}

void compare(const JobFacts& job, const Facts& other, std::string_view what, const std::string& a, const std::string& b,
             std::vector<Finding>& findings) {
  if (a == b) return;
  add(job, other, Severity::error,
      fmt::format("{} is {} on host {} and {} on host {}", what, a, job.ranks.front().host, b, other.host),
      "install the same build on all hosts, and look at PATH and LD_LIBRARY_PATH of the ranks", findings);
}

using Files = std::map<std::string, std::string>;

void compare_files(const JobFacts& job, const Facts& other, Severity severity, const Files& first, const Files& others,
                   std::vector<Finding>& findings) {
  for (const auto& [file, hash] : first) {
    const auto found = others.find(file);
    if (found == others.end() || found->second == hash || hash.empty() || found->second.empty()) continue;
    add(job, other, severity,
        fmt::format("{} is not the same on hosts {} (SHA-256 {}...) and {} ({}...)", file, job.ranks.front().host,
                    hash.substr(0, 12), other.host, found->second.substr(0, 12)),
        "copy it to all hosts, or keep it on a file system that they share", findings);
  }
}

void report_unreadable(const JobFacts& job, const Facts& facts, std::vector<Finding>& findings) {
  for (const auto& [file, hash] : facts.files) {
    if (!hash.empty()) continue;
    findings.push_back({Severity::error, kVersions, place(job, facts),
                        fmt::format("{} cannot be read on host {}", file, facts.host),
                        "copy it there, or give its path on a file system that all hosts share"});
  }
}

}  // namespace

std::vector<Finding> check_cpus(const JobFacts& job) {
  std::vector<Finding> findings;
  for (const Facts* host : hosts_of(job)) {
    const auto here =
        std::ranges::count_if(job.ranks, [&](const Facts& one) { return one.identity == host->identity; });
    const std::int64_t threads = here * host->omp_threads.value_or(1);
    if (threads <= host->cpus) continue;
    findings.push_back({Severity::warning, "cpus", place(job, *host),
                        fmt::format("{} rank{} of {} thread{} share {} CPU{}", here, here == 1 ? "" : "s",
                                    host->omp_threads.value_or(1), host->omp_threads.value_or(1) == 1 ? "" : "s",
                                    host->cpus, host->cpus == 1 ? "" : "s"),
                        "start fewer ranks on this host, set OMP_NUM_THREADS lower, or give the job more CPUs (cgroup, "
                        "taskset, --cpus-per-task)"});
  }
  return findings;
}

std::vector<Finding> check_open_files(const JobFacts& job) {
  std::vector<Finding> findings;
  for (const Facts* host : hosts_of(job)) {
    if (host->open_files >= needed(job)) continue;
    const bool raise = host->open_files_hard >= needed(job);
    findings.push_back(
        {Severity::error, "open_files", place(job, *host),
         fmt::format("a process may open {} files; {} ranks need about {}", host->open_files, job.size, needed(job)),
         raise ? fmt::format("ulimit -n {} in the shell or script that starts the job", host->open_files_hard)
               : "raise the limit in /etc/security/limits.conf, systemd's LimitNOFILE or docker's "
                 "--ulimit nofile"});
  }
  return findings;
}

std::vector<Finding> check_shared_memory(const JobFacts& job) {
  std::vector<Finding> findings;
  for (const Facts* host : hosts_of(job)) {
    if (!host->memfd_problem.empty()) findings.push_back(none(job, *host));
    if (host->shm_bytes <= kDockerDefault) findings.push_back(small(job, *host));
  }
  return findings;
}

std::vector<Finding> check_proxies(const JobFacts& job) {
  std::vector<Finding> findings;
  for (const Facts* host : hosts_of(job)) {
    if (host->proxies.empty()) continue;
    std::vector<std::string> set;
    for (const auto& [variable, value] : host->proxies) set.push_back(fmt::format("{}={}", variable, value));
    findings.push_back(
        {Severity::warning, "proxies", place(job, *host),
         fmt::format(
             "{}; no_proxy={}. Lockstep's own connections use no proxy, but HTTP to hosts of the job does (etcd, "
             "data over HTTP)",
             fmt::join(set, " "), host->no_proxy.empty() ? "(not set)" : host->no_proxy),
         "name the hosts of the job in no_proxy, or unset the variables"});
  }
  return findings;
}

std::vector<Finding> check_versions(const JobFacts& job) {
  std::vector<Finding> findings;
  for (const Facts* host : hosts_of(job)) report_unreadable(job, *host, findings);
  if (job.ranks.empty()) return findings;
  const Facts& first = job.ranks.front();
  for (const Facts& other : job.ranks) {
    compare(job, other, "Lockstep", first.lockstep, other.lockstep, findings);
    compare(job, other, "libtorch", first.libtorch, other.libtorch, findings);
    compare_files(job, other, Severity::error, first.files, other.files, findings);
    compare_files(job, other, Severity::warning, first.named_files, other.named_files, findings);
  }
  return findings;
}

}  // namespace lockstep::doctor
