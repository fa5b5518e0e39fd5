#include <lockstep/doctor/checks.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep::doctor {

std::vector<Finding> check_proxies(const Job& job) {
  std::vector<Finding> findings;
  for (const Facts* host : hosts_of(job)) {
    if (host->proxies.empty()) continue;
    std::vector<std::string> set;
    for (const auto& [variable, value] : host->proxies) set.push_back(fmt::format("{}={}", variable, value));
    findings.push_back(
        {Severity::warning, "proxies", place(job, *host),
         fmt::format(
             "{}; no_proxy={}. Lockstep's own connections use no proxy, but HTTP to hosts of the job does (etcd, "
             "data over HTTP)",
             fmt::join(set, " "), host->no_proxy.empty() ? "(not set)" : host->no_proxy),
         "name the hosts of the job in no_proxy, or unset the variables"});
  }
  return findings;
}

}  // namespace lockstep::doctor
