#include <lockstep/doctor/checks.h>
#include <lockstep/world/host_addresses.h>

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::doctor {
namespace {

constexpr auto kCheck = "addresses";

Finding loopback(const Job& job, const Facts& host) {
  return {Severity::error, kCheck, place(job, host),
          fmt::format("it offers {} to the other hosts, who would reach themselves there (chosen by {})", host.address,
                      host.address_why),
          fmt::format("set MASTER_ADDR to the number of rank 0's address instead of a name that stands for {} in "
                      "/etc/hosts, or LOCKSTEP_SOCKET_IFNAME to the interface that the others reach (there: {})",
                      host.address, candidates(host))};
}

Finding without(const Job& job, const Facts& host) {
  return {
      Severity::error, kCheck, place(job, host),
      fmt::format("it has no address to offer to the other hosts{}{}", host.problem.empty() ? "" : ": ", host.problem),
      fmt::format("set LOCKSTEP_SOCKET_IFNAME to the interface that the others reach (there: {})", candidates(host))};
}

Finding shared(const Job& job, const Facts& first, const Facts& second) {
  return {
      Severity::error, kCheck, fmt::format("{} -> {}", place(job, first), place(job, second)),
      fmt::format("hosts {} and {} both offer {}, so each reaches itself there", first.host, second.host,
                  first.address),
      fmt::format("that is usual for the bridges of containers: set LOCKSTEP_SOCKET_IFNAME to the interface between "
                  "the hosts (there: {}), or start containers with --net=host",
                  candidates(first))};
}

}  // namespace

std::vector<Finding> check_addresses(const Job& job) {
  const auto hosts = hosts_of(job);
  std::vector<Finding> findings;
  // Containers in one network can reach each other at any address.
  const auto is_elsewhere = [&](const Facts* host) { return host->network != hosts.front()->network; };
  if (std::ranges::none_of(hosts, is_elsewhere)) return findings;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const Facts& host = *hosts[i];
    if (host.address.empty() || !host.problem.empty()) {
      findings.push_back(without(job, host));
    } else if (is_loopback_address(host.address)) {
      findings.push_back(loopback(job, host));
    } else {
      for (std::size_t j = 0; j < i; ++j) {
        if (hosts[j]->address != host.address || hosts[j]->network == host.network) continue;
        findings.push_back(shared(job, *hosts[j], host));
        break;
      }
    }
  }
  return findings;
}

}  // namespace lockstep::doctor
