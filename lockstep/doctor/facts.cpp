#include <lockstep/doctor/facts.h>

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::doctor {

const Facts* find_rank(const Job& job, int rank) {
  const auto found =
      std::find_if(job.ranks.begin(), job.ranks.end(), [&](const Facts& facts) { return facts.rank == rank; });
  return found == job.ranks.end() ? nullptr : &*found;
}

std::vector<const Facts*> hosts_of(const Job& job) {
  std::vector<const Facts*> hosts;
  for (const Facts& facts : job.ranks) {
    const bool known =
        std::any_of(hosts.begin(), hosts.end(), [&](const Facts* host) { return host->identity == facts.identity; });
    if (!known) hosts.push_back(&facts);
  }
  return hosts;
}

std::string place(const Job& job, const Facts& facts) {
  return job.size == 1 ? fmt::format("host {}", facts.host) : fmt::format("host {} (rank {})", facts.host, facts.rank);
}

}  // namespace lockstep::doctor
