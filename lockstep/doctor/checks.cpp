// The list of all checks, and functions about interfaces that several of them use.
#include <lockstep/doctor/checks.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace lockstep::doctor {

std::string_view name(Severity severity) {
  switch (severity) {
    case Severity::note: return "note";
    case Severity::warning: return "warning";
    case Severity::error: break;
  }
  return "error";
}

std::size_t count(std::span<const Finding> findings, Severity severity) {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(), [&](const Finding& one) { return one.severity == severity; }));
}

std::vector<Finding> examine(const JobFacts& job) {
  using Check = std::vector<Finding> (*)(const JobFacts&);
  constexpr std::array<Check, 16> kChecks = {check_rendezvous,    check_environment, check_presence,   check_links,
                                             check_addresses,     check_interfaces,  check_containers, check_names,
                                             check_port,          check_versions,    check_clocks,     check_proxies,
                                             check_shared_memory, check_open_files,  check_cpus,       check_gpus};
  std::vector<Finding> findings;
  for (const Check check : kChecks) std::ranges::move(check(job), std::back_inserter(findings));
  std::ranges::stable_sort(findings, [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return findings;
}

bool is_virtual_interface(std::string_view name) {
  // Docker and podman, libvirt, VirtualBox and VMware, LXC, the networks of Kubernetes.
  constexpr std::array<std::string_view, 18> kPrefixes = {
      "docker", "br-",  "veth", "virbr",   "vnet", "vboxnet",      "vmnet",  "lxcbr", "lxdbr",
      "cni",    "cali", "cbr",  "flannel", "kube", "nodelocaldns", "podman", "weave", "cilium"};
  return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

bool is_in_network_of_its_own(const Facts& facts) {
  constexpr std::string_view kDockersOwn = "172.17.";  // the address range of Docker's default network
  const Interface* const chosen = interface_of(facts, facts.address);
  // docker0 and similar interfaces are the host's end: then this is not a container, but the wrong interface was
  // chosen.
  const bool is_bridge = chosen != nullptr && is_virtual_interface(chosen->name);
  return facts.in_container && facts.address.starts_with(kDockersOwn) && !is_bridge;
}

const Interface* interface_of(const Facts& facts, std::string_view address) {
  const auto found =
      std::ranges::find_if(facts.interfaces, [&](const Interface& one) { return one.address == address; });
  return found == facts.interfaces.end() ? nullptr : &*found;
}

std::string candidates(const Facts& facts) {
  std::vector<std::string> names;
  for (const Interface& one : facts.interfaces) {
    if (!one.loopback && !is_virtual_interface(one.name))
      names.push_back(fmt::format("{} ({})", one.name, one.address));
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace lockstep::doctor
