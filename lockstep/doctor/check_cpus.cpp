#include <lockstep/doctor/checks.h>

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::doctor {

std::vector<Finding> check_cpus(const Job& job) {
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

}  // namespace lockstep::doctor
