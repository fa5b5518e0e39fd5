#include <lockstep/doctor/checks.h>

#include <fmt/format.h>

namespace lockstep::doctor {

std::vector<Finding> check_containers(const Job& job) {
  std::vector<Finding> findings;
  for (const Facts* host : hosts_of(job)) {
    if (!host->in_container) continue;
    if (!is_in_network_of_its_own(*host)) {
      findings.push_back(
          {Severity::note, "containers", place(job, *host),
           fmt::format("this is a container, with the address {}", host->address.empty() ? "none" : host->address),
           "nothing, as long as other hosts reach that address; else start it with --net=host"});
      continue;
    }
    findings.push_back({Severity::warning, "containers", place(job, *host),
                        fmt::format("this is a container in a network of its own machine ({}): no port of it can be "
                                    "reached from other hosts",
                                    host->address),
                        "for a job on several hosts start it with --net=host; mapping one port (-p) is enough for the "
                        "meeting of ranks, but not for the data between them"});
  }
  return findings;
}

}  // namespace lockstep::doctor
