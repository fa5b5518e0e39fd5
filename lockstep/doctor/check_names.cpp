// The check of host names: the addresses that they resolve to on each host, and the time that it takes.
#include <lockstep/doctor/checks.h>
#include <lockstep/world/host_addresses.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace lockstep::doctor {
namespace {

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

std::vector<Finding> check_names(const JobFacts& job) {
  std::vector<Finding> findings;
  for (const Facts* host : hosts_of(job)) check_own(job, *host, findings);
  check_between(job, findings);
  return findings;
}

}  // namespace lockstep::doctor
