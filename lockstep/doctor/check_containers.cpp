#include <lockstep/doctor/checks.h>

#include <fmt/format.h>

namespace lockstep::doctor {
namespace {

// Docker's own range for the networks it makes.
bool is_bridge_address(std::string_view address) { return address.starts_with("172.17."); }

}  // namespace

std::vector<Finding> check_containers(const Job& job) {
  std::vector<Finding> findings;
  for (const Facts* host : hosts_of(job)) {
    if (!host->in_container) continue;
    const Interface* const chosen = interface_of(*host, host->address);
    // docker0 and its like are the other end: this is then not such a container, but chose the wrong interface.
    const bool is_bridge = chosen != nullptr && is_virtual_interface(chosen->name);
    const bool isolated = is_bridge_address(host->address) && !is_bridge;
    if (!isolated) {
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
