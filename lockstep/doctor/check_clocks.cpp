#include <lockstep/doctor/checks.h>

#include <fmt/format.h>

#include <cmath>

namespace lockstep::doctor {

std::vector<Finding> check_clocks(const Job& job) {
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
         "set the clocks with NTP (timedatectl, chronyc); a job runs, but its logs and files cannot be "
         "put in order"});
  }
  return findings;
}

}  // namespace lockstep::doctor
