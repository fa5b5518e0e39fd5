#include <lockstep/doctor/checks.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace lockstep::doctor {

std::vector<Finding> examine(const Job& job) {
  using Check = std::vector<Finding> (*)(const Job&);
  constexpr std::array<Check, 14> kChecks = {
      check_meeting, check_presence, check_links,  check_addresses, check_interfaces,    check_containers, check_names,
      check_port,    check_versions, check_clocks, check_proxies,   check_shared_memory, check_open_files, check_cpus};
  std::vector<Finding> findings;
  for (const Check check : kChecks) std::ranges::move(check(job), std::back_inserter(findings));
  std::ranges::stable_sort(findings, [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return findings;
}

}  // namespace lockstep::doctor
