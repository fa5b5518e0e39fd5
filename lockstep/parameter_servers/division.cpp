// The subgroups of a job with servers: one of all workers, and a pair for each worker and server.
#include <lockstep/base/error.h>
#include <lockstep/parameter_servers/division.h>

#include <numeric>

namespace lockstep::parameter_servers {

Division divide(const Group& all, int servers) {
  if (servers >= all.size()) {
    fail(ErrorKind::config, "cluster.server_num",
         "is {} and the job has {} processes, so that none would be a worker; start {} more, or fewer servers", servers,
         all.size(), servers + 1 - all.size());
  }
  Division division{.workers = all.size() - servers, .servers = servers, .group = std::nullopt, .pairs = {}};
  std::vector<int> workers(static_cast<std::size_t>(division.workers));
  std::iota(workers.begin(), workers.end(), 0);
  division.group = all.subgroup(workers);
  for (int worker = 0; worker < division.workers; ++worker) {
    for (int server = 0; server < servers; ++server) {
      // Sequential, in the same order on all ranks.
      if (auto pair = all.subgroup({worker, division.workers + server})) division.pairs.push_back(pair->unchecked());
    }
  }
  return division;
}

}  // namespace lockstep::parameter_servers
