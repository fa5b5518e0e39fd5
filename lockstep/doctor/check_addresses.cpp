// Checks of the addresses that hosts offer to each other, and of host names: the addresses that they resolve to on each
// host, and the time that it takes.
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

constexpr auto kNames = "names";
constexpr std::int64_t kSlow = 1000;

std::string list(const std::vector<std::string>& addresses) {
  return addresses.empty() ? "nothing" : fmt::format("{}", fmt::join(addresses, ", "));
}

bool same(std::vector<std::string> a, std::vector<std::string> b) {
  std::ranges::sort(a);
  std::ranges::sort(b);
  return a == b;
}

bool all_loopback(const std::vector<std::string>& addresses) {
  return !addresses.empty() && std::ranges::all_of(addresses, is_loopback_address);
}

Finding unresolved(const JobFacts& job, const Facts& host, const Name& name) {
  const bool is_master = name.name == job.master;
  return {is_master ? Severity::error : Severity::warning, kNames, place(job, host),
          fmt::format("{} {} does not resolve on host {}", is_master ? "the master's name" : "its own name", name.name,
                      host.host),
          is_master ? "add the name to DNS or /etc/hosts there, or set MASTER_ADDR to a numeric address"
                    : "add the name to DNS or /etc/hosts there; programs that look up their own host wait for it"};
}

Finding itself(const JobFacts& job, const Facts& host, const Name& name) {
  return {Severity::warning, kNames, place(job, host),
          fmt::format("its name {} resolves to {} on the host itself, and no other host can use that address",
                      name.name, list(name.addresses)),
          "for jobs on several hosts, make the name resolve to the address in the network (in /etc/hosts, the line "
          "with 127.0.1.1), or always give numeric addresses"};
}

Finding slow(const JobFacts& job, const Facts& host, const Name& name) {
  const bool harmless = name.answered || name.name != job.master;
  return {harmless ? Severity::warning : Severity::error, kNames, place(job, host),
          fmt::format("looking up {} took {:.1f} s{}", name.name, static_cast<double>(name.milliseconds) / 1000,
                      name.answered ? "" : ", and there was no answer yet"),
          "fix the name server in /etc/resolv.conf, or put the names of the job into /etc/hosts"};
}

void check_own(const JobFacts& job, const Facts& host, std::vector<Finding>& findings) {
  for (const Name& name : host.names) {
    const bool is_own = name.name == host.host;
    if (name.addresses.empty() && name.answered) findings.push_back(unresolved(job, host, name));
    if (is_own && name.name != "localhost" && all_loopback(name.addresses)) findings.push_back(itself(job, host, name));
    if (name.milliseconds >= kSlow) findings.push_back(slow(job, host, name));
  }
}

// Whether the addresses differ. Ignores a rank that resolves the name to a loopback address: usual for a host's own
// name, and reported by check_own.
bool differ(const NameSeen& a, const NameSeen& b) {
  if (a.name.addresses.empty() || b.name.addresses.empty()) return false;
  if (all_loopback(a.name.addresses) || all_loopback(b.name.addresses)) return false;
  return !same(a.name.addresses, b.name.addresses);
}

void check_between(const JobFacts& job, std::vector<Finding>& findings) {
  std::set<std::string> told;
  for (std::size_t i = 0; i < job.names.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const NameSeen& a = job.names[j];
      const NameSeen& b = job.names[i];
      const Facts* const first = find_rank(job, a.rank);
      const Facts* const second = find_rank(job, b.rank);
      if (a.name.name != b.name.name || !differ(a, b) || first == nullptr || second == nullptr) continue;
      if (!told.insert(a.name.name).second) continue;
      findings.push_back({a.name.name == job.master ? Severity::error : Severity::warning, kNames,
                          fmt::format("{} -> {}", place(job, *first), place(job, *second)),
                          fmt::format("{} resolves to {} on host {} and to {} on host {}", a.name.name,
                                      list(a.name.addresses), first->host, list(b.name.addresses), second->host),
                          "make DNS or /etc/hosts the same on both, or give numeric addresses"});
    }
  }
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

std::vector<Finding> check_names(const JobFacts& job) {
  std::vector<Finding> findings;
  for (const Facts* host : hosts_of(job)) check_own(job, *host, findings);
  check_between(job, findings);
  return findings;
}

}  // namespace lockstep::doctor
