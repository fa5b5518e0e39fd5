// Checks of each host's limits and settings: CPUs, open files, shared memory, proxies.
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

}  // namespace lockstep::doctor
