#include <lockstep/doctor/checks.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

namespace lockstep::doctor {

std::vector<Finding> check_interfaces(const Job& job) {
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
                        fmt::format("virtual interfaces are there ({}), but not used", fmt::join(present, ", ")),
                        "nothing; where another library takes one of them, name the right one for it "
                        "(NCCL_SOCKET_IFNAME, btl_tcp_if_include)"});
  }
  return findings;
}

}  // namespace lockstep::doctor
