#include <lockstep/comm/store_addresses.h>
#include <lockstep/world/host_addresses.h>

#include <algorithm>

namespace lockstep::detail {
namespace {

constexpr auto kLoopback = "127.0.0.1";

}  // namespace

std::vector<std::string> addresses_to_listen_on(const MeetingHost& host, const std::vector<std::string>& own) {
  if (host_to_connect_to(host, own) != host.name) return {kLoopback};
  std::vector<std::string> chosen;
  bool some_lead_here = false;
  for (const auto& address : host.addresses) {
    if (!any_is_own({address}, own)) continue;
    chosen.push_back(address);
    some_lead_here = some_lead_here || !is_loopback_address(address);
  }
  // A loopback address leads other hosts to themselves: a mistake, which the doctor can only tell if they reach this
  // one.
  if (some_lead_here || (is_always_this_host(host.name) && host.all_ranks_here)) return chosen;
  return {};
}

std::string host_to_connect_to(const MeetingHost& host, const std::vector<std::string>& own) {
  const bool is_own = any_is_own(host.addresses, own);
  return host.all_ranks_here && is_own && !is_always_this_host(host.name) ? kLoopback : host.name;
}

MeetingHost find_meeting_host(const World& world, const std::string& name) {
  return {name, resolve(name), world.local_size == world.size && world.size > 0};
}

}  // namespace lockstep::detail
