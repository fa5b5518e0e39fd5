// Checks of the measurements between each two hosts: connections and clocks.
#include <lockstep/doctor/checks.h>
#include <lockstep/doctor/links.h>

#include <fmt/format.h>

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

}  // namespace lockstep::doctor
