#include <lockstep/doctor/checks.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace lockstep::doctor {

bool is_virtual_interface(std::string_view name) {
  // Docker and podman, libvirt, VirtualBox and VMware, LXC, the networks of Kubernetes.
  constexpr std::array<std::string_view, 18> kPrefixes = {
      "docker", "br-",  "veth", "virbr",   "vnet", "vboxnet",      "vmnet",  "lxcbr", "lxdbr",
      "cni",    "cali", "cbr",  "flannel", "kube", "nodelocaldns", "podman", "weave", "cilium"};
  return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
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
