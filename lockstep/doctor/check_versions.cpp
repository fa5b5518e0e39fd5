// The check of builds and files, which must be the same on all ranks.
#include <lockstep/doctor/checks.h>

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::doctor {
namespace {

constexpr auto kVersions = "versions";

// Adds a finding about a difference between rank 0 and another rank, once for each host.
void add(const JobFacts& job, const Facts& other, Severity severity, const std::string& what, const std::string& fix,
         std::vector<Finding>& findings) {
  const bool told = std::ranges::any_of(findings, [&](const Finding& one) { return one.what == what; });
  if (told) return;
  findings.push_back(
      {severity, kVersions, fmt::format("{} -> {}", place(job, job.ranks.front()), place(job, other)), what, fix});
}

void compare(const JobFacts& job, const Facts& other, std::string_view what, const std::string& a, const std::string& b,
             std::vector<Finding>& findings) {
  if (a == b) return;
  add(job, other, Severity::error,
      fmt::format("{} is {} on host {} and {} on host {}", what, a, job.ranks.front().host, b, other.host),
      "install the same build on all hosts, and look at PATH and LD_LIBRARY_PATH of the ranks", findings);
}

using Files = std::map<std::string, std::string>;

void compare_files(const JobFacts& job, const Facts& other, Severity severity, const Files& first, const Files& others,
                   std::vector<Finding>& findings) {
  for (const auto& [file, hash] : first) {
    const auto found = others.find(file);
    if (found == others.end() || found->second == hash || hash.empty() || found->second.empty()) continue;
    add(job, other, severity,
        fmt::format("{} is not the same on hosts {} (SHA-256 {}...) and {} ({}...)", file, job.ranks.front().host,
                    hash.substr(0, 12), other.host, found->second.substr(0, 12)),
        "copy it to all hosts, or keep it on a file system that they share", findings);
  }
}

void report_unreadable(const JobFacts& job, const Facts& facts, std::vector<Finding>& findings) {
  for (const auto& [file, hash] : facts.files) {
    if (!hash.empty()) continue;
    findings.push_back({Severity::error, kVersions, place(job, facts),
                        fmt::format("{} cannot be read on host {}", file, facts.host),
                        "copy it there, or give its path on a file system that all hosts share"});
  }
}

}  // namespace

std::vector<Finding> check_versions(const JobFacts& job) {
  std::vector<Finding> findings;
  for (const Facts* host : hosts_of(job)) report_unreadable(job, *host, findings);
  if (job.ranks.empty()) return findings;
  const Facts& first = job.ranks.front();
  for (const Facts& other : job.ranks) {
    compare(job, other, "Lockstep", first.lockstep, other.lockstep, findings);
    compare(job, other, "libtorch", first.libtorch, other.libtorch, findings);
    compare_files(job, other, Severity::error, first.files, other.files, findings);
    compare_files(job, other, Severity::warning, first.named_files, other.named_files, findings);
  }
  return findings;
}

}  // namespace lockstep::doctor
