// Checks of the addresses that hosts offer to each other.
#include <lockstep/doctor/checks.h>
#include <lockstep/world/host_addresses.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace lockstep::doctor {
namespace {

constexpr auto kAddresses = "addresses";

Finding loopback(const JobFacts& job, const Facts& host) {
  return {Severity::error, kAddresses, place(job, host),
          fmt::format("it offers {} to the other hosts, but each host reaches itself at this address (chosen by {})",
                      host.address, host.address_why),
          fmt::format("set MASTER_ADDR to the numeric address of rank 0 instead of a name that resolves to {} by "
                      "/etc/hosts, or LOCKSTEP_SOCKET_IFNAME to the interface that the others reach (there: {})",
                      host.address, candidates(host))};
}

Finding without(const JobFacts& job, const Facts& host) {
  return {
      Severity::error, kAddresses, place(job, host),
      fmt::format("it has no address to offer to the other hosts{}{}", host.problem.empty() ? "" : ": ", host.problem),
      fmt::format("set LOCKSTEP_SOCKET_IFNAME to the interface that the others reach (there: {})", candidates(host))};
}

Finding shared(const JobFacts& job, const Facts& first, const Facts& second) {
  return {
      Severity::error, kAddresses, fmt::format("{} -> {}", place(job, first), place(job, second)),
      fmt::format("hosts {} and {} both offer {}, so each of them reaches itself at this address", first.host,
                  second.host, first.address),
      fmt::format("that is usual for the bridges of containers: set LOCKSTEP_SOCKET_IFNAME to the interface between "
                  "the hosts (there: {}), or start containers with --net=host",
                  candidates(first))};
}

}  // namespace

std::vector<Finding> check_addresses(const JobFacts& job) {
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

std::vector<Finding> check_interfaces(const JobFacts& job) {
  std::vector<Finding> findings;
  for (const Facts* host : hosts_of(job)) {
    const Interface* const chosen = interface_of(*host, host->address);
    if (chosen != nullptr && is_virtual_interface(chosen->name)) {
      findings.push_back(
          {Severity::warning, "interfaces", place(job, *host),
           fmt::format("it offers {} of {}, an interface of containers or virtual machines (chosen by {})",
                       host->address, chosen->name, host->address_why),
           fmt::format("set LOCKSTEP_SOCKET_IFNAME to the interface between the hosts (there: {})",
                       candidates(*host))});
      continue;
    }
    std::set<std::string> present;
    for (const Interface& one : host->interfaces) {
      if (is_virtual_interface(one.name)) present.insert(one.name);
    }
    if (present.empty()) continue;
    findings.push_back({Severity::note, "interfaces", place(job, *host),
                        fmt::format("there are virtual interfaces ({}), which are not used", fmt::join(present, ", ")),
                        "nothing; if another library uses one of them, set the right interface for that library "
                        "(NCCL_SOCKET_IFNAME, btl_tcp_if_include)"});
  }
  return findings;
}

std::vector<Finding> check_containers(const JobFacts& job) {
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
                        "rendezvous of ranks, but not for the data between them"});
  }
  return findings;
}

}  // namespace lockstep::doctor
