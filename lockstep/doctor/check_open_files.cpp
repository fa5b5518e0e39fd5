#include <lockstep/doctor/checks.h>

#include <fmt/format.h>

namespace lockstep::doctor {
namespace {

// The store has one connection to each rank, and gloo has one between every two ranks; the constant is for libraries,
// the program, its data and logs.
std::uint64_t needed(const Job& job) { return 192 + 2 * static_cast<std::uint64_t>(job.size); }

}  // namespace

std::vector<Finding> check_open_files(const Job& job) {
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

}  // namespace lockstep::doctor
