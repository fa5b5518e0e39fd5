#include <lockstep/doctor/checks.h>

#include <fmt/format.h>

namespace lockstep::doctor {
namespace {

constexpr auto kCheck = "shared_memory";
constexpr std::uint64_t kMiB = 1U << 20;
constexpr std::uint64_t kDockerDefault = 64 * kMiB;

Finding none(const Job& job, const Facts& host) {
  return {Severity::error, kCheck, place(job, host),
          fmt::format("ranks of this host cannot share memory: memfd_create: {}", host.memfd_problem),
          "allow the call (seccomp profile of the container), or set LOCKSTEP_BACKEND=gloo"};
}

Finding small(const Job& job, const Facts& host) {
  return {Severity::warning, kCheck, place(job, host),
          fmt::format("/dev/shm has {} MiB. Lockstep does not use it, but MPI, NCCL and Python's data loaders do",
                      host.shm_bytes / kMiB),
          "in a container: --shm-size=8g or --ipc=host; else: mount -o remount,size=8g /dev/shm"};
}

}  // namespace

std::vector<Finding> check_shared_memory(const Job& job) {
  std::vector<Finding> findings;
  for (const Facts* host : hosts_of(job)) {
    if (!host->memfd_problem.empty()) findings.push_back(none(job, *host));
    if (host->shm_bytes <= kDockerDefault) findings.push_back(small(job, *host));
  }
  return findings;
}

}  // namespace lockstep::doctor
