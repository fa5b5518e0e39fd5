// The ranks of a group by host, with the position of each on its host, and the subtrees of the sum tree on each host.
#include <lockstep/comm/hierarchy/hosts.h>

#include <algorithm>
#include <cstddef>

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

}  // namespace lockstep::detail::hierarchy
