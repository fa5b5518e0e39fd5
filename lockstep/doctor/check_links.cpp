#include <lockstep/doctor/checks.h>

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::doctor {
namespace {

std::string words(const Facts& facts) {
  const Interface* const interface = interface_of(facts, facts.address);
  return fmt::format("{}{}", facts.address, interface == nullptr ? "" : fmt::format(" ({})", interface->name));
}

std::string mend(const Job& job, const Facts& from, const Facts& to) {
  const Interface* const chosen = interface_of(to, to.address);
  const bool is_virtual = chosen != nullptr && is_virtual_interface(chosen->name);
  auto choice = fmt::format(
      "its address is that of {}; set LOCKSTEP_SOCKET_IFNAME on host {} to the interface that the others reach (there: "
      "{})",
      to.address_why, to.host, candidates(to));
  if (is_virtual) return choice;
  if (from.in_container || to.in_container) {
    return fmt::format("{} runs in a container: start containers in the hosts' network (docker run --net=host)",
                       to.in_container ? place(job, to) : place(job, from));
  }
  if (to.address_named) return choice;
  return fmt::format(
      "open all ports between the two hosts (firewall, security group), check `ip route get {}` on host {}; or {}",
      to.address, from.host, choice);
}

// Which side of a pair connects is the engine's choice, and no promise.
bool works_the_other_way(const Job& job, const Link& link) {
  return std::ranges::any_of(job.links, [&](const Link& other) {
    return other.from == link.to && other.to == link.from && other.problem.empty();
  });
}

}  // namespace

std::vector<Finding> check_links(const Job& job) {
  std::vector<Finding> findings;
  for (const Link& link : job.links) {
    const Facts* const from = find_rank(job, link.from);
    const Facts* const to = find_rank(job, link.to);
    if (link.problem.empty() || from == nullptr || to == nullptr) continue;
    findings.push_back(
        {Severity::error, "links", fmt::format("{} -> {}", place(job, *from), place(job, *to)),
         fmt::format(
             "host {} cannot connect to host {} at {}: {}{}", from->host, to->host, words(*to), link.problem,
             works_the_other_way(job, link) ? ". The other way works, but not every job gets by with that" : ""),
         mend(job, *from, *to)});
  }
  return findings;
}

}  // namespace lockstep::doctor
