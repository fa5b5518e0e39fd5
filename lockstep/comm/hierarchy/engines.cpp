// The engines under the hierarchy backend: two of shared memory in each host, one network across hosts, one direct.
#include <lockstep/comm/hierarchy/plans.h>

#include <lockstep/comm/backends.h>
#include <lockstep/comm/meet/stores.h>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace lockstep::detail::hierarchy {
namespace {

// The context for a backend of some of the ranks, given by their ranks in the group.
BackendContext part_of(const BackendContext& whole, const std::vector<int>& ranks, const std::string& name) {
  BackendContext part = whole;
  part.store = c10::make_intrusive<c10d::PrefixStore>(name, whole.store);
  part.name = whole.name + "/" + name;
  part.progress = nullptr;  // the pipeline advances the operations of an engine in its own order
  part.rank = static_cast<int>(std::find(ranks.begin(), ranks.end(), whole.rank) - ranks.begin());
  part.size = static_cast<int>(ranks.size());
  part.world_ranks.clear();
  part.hosts.clear();
  for (const int rank : ranks) {
    part.world_ranks.push_back(whole.world_ranks[static_cast<std::size_t>(rank)]);
    part.hosts.push_back(whole.hosts[static_cast<std::size_t>(rank)]);
  }
  if (whole.describe_rank) {
    part.describe_rank = [ask = whole.describe_rank, ranks](int rank) {
      return ask(ranks.at(static_cast<std::size_t>(rank)));
    };
  }
  part.while_connecting = [ask = whole.while_connecting, ranks](const std::vector<int>& waited_for) {
    std::vector<int> in_whole;
    for (const int rank : waited_for) in_whole.push_back(ranks.at(static_cast<std::size_t>(rank)));
    if (ask) ask(in_whole);
  };
  // A rank of another host may have completed its part and left, together with the store. Engines detect missing ranks.
  part.throw_if_lost = [ask = whole.throw_if_failed](const std::vector<int>&) { ask(); };
  return part;
}

}  // namespace

Engines meet(const BackendContext& context) {
  Engines engines;
  engines.hosts = hosts_of(context.hosts, context.rank);
  const Hosts& hosts = engines.hosts;

  const auto make_self = backend_called("self").make;
  const auto make_network = backend_called(context.network).make;

  auto inside = part_of(context, hosts.neighbours(), fmt::format("host_{}", hosts.self.host));
  inside.one_host = true;
  if (inside.size > 1) {
    std::tie(engines.up, engines.down) = make_shm_pair(inside);
  } else {
    engines.up = make_self(inside);
    engines.down = make_self(inside);
  }

  std::vector<int> everyone;
  for (int rank = 0; rank < hosts.size(); ++rank) everyone.push_back(rank);
  engines.direct = make_network(part_of(context, everyone, "direct"));
  if (hosts.in_column()) {
    const int local = hosts.self.local;
    engines.across = make_network(part_of(context, hosts.column(local), fmt::format("column_{}", local)));
  }
  return engines;
}

}  // namespace lockstep::detail::hierarchy
