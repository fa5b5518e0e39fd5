// Checks of connections: of the ranks to the rendezvous, whose port must be free, with the missing ranks; and, by
// the measurements between each two hosts, of links and clocks.
#include <lockstep/doctor/checks.h>
#include <lockstep/doctor/links.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace lockstep::doctor {
namespace {

std::string words(const Facts& facts) {
  const Interface* const interface = interface_of(facts, facts.address);
  return fmt::format("{}{}", facts.address, interface == nullptr ? "" : fmt::format(" ({})", interface->name));
}

std::string fix_of_link(const JobFacts& job, const Facts& from, const Facts& to, bool dropped) {
  const Interface* const chosen = interface_of(to, to.address);
  const bool is_virtual = chosen != nullptr && is_virtual_interface(chosen->name);
  auto choice = fmt::format(
      "its address is that of {}; set LOCKSTEP_SOCKET_IFNAME on host {} to the interface that the others reach (there: "
      "{})",
      to.address_why, to.host, candidates(to));
  if (is_virtual) return choice;
  if (is_in_network_of_its_own(to)) {
    return fmt::format("{} runs in a container: start containers in the hosts' network (docker run --net=host)",
                       place(job, to));
  }
  if (to.address_named && !dropped) return choice;
  const auto way = dropped ? fmt::format(
                                 "packets from host {} to host {}, or the answers, are dropped: look for a firewall on "
                                 "both hosts (nft list ruleset, iptables -S) and between them (security group), and "
                                 "open all TCP ports both ways; check `ip route get {}` on host {} and `ip route "
                                 "get {}` on host {}",
                                 from.host, to.host, to.address, from.host, from.address, to.host)
                           : fmt::format(
                                 "open all ports between the two hosts (firewall, security group), check `ip route "
                                 "get {}` on host {}",
                                 to.address, from.host);
  const bool container = from.in_container || to.in_container;
  return fmt::format("{}; or {}{}", way, choice,
                     container ? ". A container with a network of its own (not --net=host) also hides its ports" : "");
}

// Whether the link works in the other direction. That is not sufficient, because either side of a pair may connect.
bool works_the_other_way(const JobFacts& job, const Link& link) {
  return std::ranges::any_of(job.links, [&](const Link& other) {
    return other.from == link.to && other.to == link.from && other.problem.empty();
  });
}

bool says(const JobFacts& job, std::string_view words) { return job.unmet.find(words) != std::string::npos; }

// The fix for each reason. The compared texts are error messages of the kernel and the resolver.
std::string fix_of_rendezvous(const JobFacts& job, const Facts& host) {
  if (says(job, "does not resolve")) {
    return fmt::format(
        "set MASTER_ADDR to the numeric address of rank 0, or add the name {} to DNS or /etc/hosts on host {}",
        job.master, host.host);
  }
  if (says(job, "Connection refused")) {
    return "nothing listens there: start rank 0, and give all ranks the same MASTER_ADDR and MASTER_PORT. If rank 0 "
           "runs in a container, start that with --net=host, or publish the port (-p)";
  }
  if (says(job, "Connection timed out")) {
    return fmt::format(
        "packets are dropped on the way: open all TCP ports between the hosts of the job in firewalls and security "
        "groups, and check that {} is an address of rank 0's host",
        job.master);
  }
  if (says(job, "unreachable") || says(job, "No route to host")) {
    return fmt::format(
        "host {} has no route to that address: see `ip route get {}` there, and give an address of rank "
        "0's host in a network that both hosts have",
        host.host, job.master);
  }
  return fmt::format(
      "check that rank 0 was started and still runs, and that host {} reaches its address and port "
      "(firewall, --net=host for containers, MASTER_ADDR)",
      host.host);
}

}  // namespace

std::vector<Finding> check_links(const JobFacts& job) {
  std::vector<Finding> findings;
  for (const Link& link : job.links) {
    const Facts* const from = find_rank(job, link.from);
    const Facts* const to = find_rank(job, link.to);
    if (link.problem.empty() || from == nullptr || to == nullptr) continue;
    findings.push_back(
        {Severity::error, "links", fmt::format("{} -> {}", place(job, *from), place(job, *to)),
         fmt::format(
             "host {} cannot connect to host {} at {}: {}{}", from->host, to->host, words(*to), link.problem,
             works_the_other_way(job, link) ? ". The other direction works, but that is not enough for every job" : ""),
         fix_of_link(job, *from, *to, link.problem.starts_with(kNoAnswer))});
  }
  return findings;
}

std::vector<Finding> check_clocks(const JobFacts& job) {
  constexpr double kTolerated = 1.0;
  std::vector<Finding> findings;
  for (const Link& link : job.links) {
    const Facts* const from = find_rank(job, link.from);
    const Facts* const to = find_rank(job, link.to);
    // Each pair was measured from both sides.
    const bool counts = link.problem.empty() && link.from < link.to && from != nullptr && to != nullptr;
    if (!counts || std::abs(link.clock_ahead) - link.clock_uncertainty <= kTolerated) continue;
    findings.push_back(
        {Severity::warning, "clocks", fmt::format("{} -> {}", place(job, *from), place(job, *to)),
         fmt::format("the clock of host {} is {:.1f} s {} that of host {}", to->host, std::abs(link.clock_ahead),
                     link.clock_ahead > 0 ? "ahead of" : "behind", from->host),
         "set the clocks with NTP (timedatectl, chronyc); a job runs, but the times in its logs and files cannot be "
         "compared"});
  }
  return findings;
}

std::vector<Finding> check_rendezvous(const JobFacts& job) {
  if (job.unmet.empty()) return {};
  const Facts& host = job.ranks.front();
  // If the port cannot be opened, or a variable is wrong, that is the reason, and another check reports it.
  if ((host.port && !host.port->problem.empty()) || !host.environment.empty()) return {};
  const auto where = host.rank == 0 ? place(job, host) : fmt::format("{} -> rank 0", place(job, host));
  return {{Severity::error, "rendezvous", where, job.unmet, fix_of_rendezvous(job, host)}};
}

std::vector<Finding> check_environment(const JobFacts& job) {
  std::vector<Finding> findings;
  for (const Facts* host : hosts_of(job)) {
    if (host->environment.empty()) continue;
    findings.push_back({Severity::error, "environment", place(job, *host), host->environment,
                        "correct the variable, or unset it, where the job is started"});
  }
  return findings;
}

std::vector<Finding> check_presence(const JobFacts& job) {
  if (job.missing.empty()) return {};
  const bool one = job.missing.size() == 1;
  return {
      {Severity::error, "presence", fmt::format("rank{} {}", one ? "" : "s", fmt::join(job.missing, ", ")),
       fmt::format("{} of {} ranks did not reach the rendezvous{}{}", job.missing.size(), job.size,
                   job.master.empty() ? "" : ", at ", job.master),
       fmt::format("read what {} printed: a rank that cannot reach the rendezvous prints why. If it printed nothing, "
                   "it was not started, or with another address, port or world size",
                   one ? "it" : "they")}};
}

std::vector<Finding> check_port(const JobFacts& job) {
  std::vector<Finding> findings;
  for (const Facts& facts : job.ranks) {
    if (!facts.port || facts.port->problem.empty()) continue;
    findings.push_back(
        {Severity::error, "port", place(job, facts),
         fmt::format("port {} of the rendezvous cannot be opened: {}", facts.port->number, facts.port->problem),
         "stop that program, or choose a free port (MASTER_PORT, --master_port, ctrl_port), the same on "
         "all hosts; on one host 'lockstep run' chooses one itself"});
  }
  return findings;
}

}  // namespace lockstep::doctor
