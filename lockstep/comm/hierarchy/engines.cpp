// What the plans are made from: the ranks of a group by host, with the subtrees of the sum tree on each host; the
// engines, two of shared memory in each host, one network across hosts, one direct; and the cut of a tensor into
// slices, one for each column of ranks, on cache lines, with their broadcasts inside a host.
#include <lockstep/comm/hierarchy/plans.h>

#include <lockstep/comm/backends.h>
#include <lockstep/comm/meet/stores.h>
#include <lockstep/comm/work_states.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace lockstep::detail {

std::vector<Span> split(std::int64_t total, std::int64_t most) {
  std::vector<Span> spans;
  for (std::int64_t begin = 0; begin < total; begin += most) spans.push_back({begin, std::min(most, total - begin)});
  return spans;
}

}  // namespace lockstep::detail

namespace lockstep::detail::hierarchy {

int Hosts::width() const {
  std::size_t most = 0;
  for (const auto& ranks : members) most = std::max(most, ranks.size());
  return static_cast<int>(most);
}

bool Hosts::even() const {
  return std::all_of(members.begin(), members.end(),
                     [&](const auto& ranks) { return ranks.size() == members.front().size(); });
}

bool Hosts::in_order() const {
  const auto by_host = [](const Place& a, const Place& b) { return a.host < b.host; };
  return even() && std::is_sorted(places.begin(), places.end(), by_host);
}

std::vector<int> Hosts::column(int local) const {
  std::vector<int> ranks;
  for (const auto& host : members) ranks.push_back(host.at(static_cast<std::size_t>(local)));
  return ranks;
}

Hosts hosts_of(const std::vector<int>& host_numbers, int rank) {
  Hosts hosts;
  for (std::size_t i = 0; i < host_numbers.size(); ++i) {
    const auto host = static_cast<std::size_t>(host_numbers[i]);
    if (host >= hosts.members.size()) hosts.members.resize(host + 1);
    hosts.places.push_back({host_numbers[i], static_cast<int>(hosts.members[host].size())});
    hosts.members[host].push_back(static_cast<int>(i));
  }
  hosts.self = hosts.place_of(rank);
  for (const auto& members : hosts.members) hosts.subtrees.push_back(reduction::subtrees_of(members, hosts.size()));
  return hosts;
}

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

namespace {

constexpr std::size_t kTooSmallToCut = 256 << 10;  // bytes
constexpr std::int64_t kLine = 64;                 // elements, so whole cache lines for every dtype

std::int64_t slice_length(std::int64_t elements, std::int64_t columns) {
  const auto even = (elements + columns - 1) / columns;
  return (even + kLine - 1) / kLine * kLine;
}

}  // namespace

std::vector<at::Tensor> slices_of(const Hosts& hosts, const at::Tensor& flat) {
  if (hosts.columns() == 1 || flat.nbytes() < kTooSmallToCut) return {flat};
  std::vector<at::Tensor> slices;
  for (const auto& part : split(flat.numel(), slice_length(flat.numel(), hosts.columns()))) {
    slices.push_back(flat.narrow(0, part.begin, part.count));
  }
  return slices;
}

Backend::Pending hand_out(const Engines& engines, const std::vector<at::Tensor>& slices, const Call& call) {
  std::vector<Backend::Pending> parts;
  for (std::size_t carrier = 0; carrier < slices.size(); ++carrier) {
    auto slice = slices[carrier];
    parts.push_back(engines.down->broadcast(slice, static_cast<int>(carrier), call));
  }
  return all_of(std::move(parts));
}

}  // namespace lockstep::detail::hierarchy
