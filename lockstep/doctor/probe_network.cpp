#include <lockstep/doctor/probe.h>
#include <lockstep/world/host_addresses.h>

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>

namespace lockstep::doctor {
std::vector<Interface> probe_interfaces() {
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(raw, &::freeifaddrs);
  std::vector<Interface> found;
  for (const auto* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const auto address = address_text(*entry->ifa_addr);
    const bool link_local = address.starts_with("fe80") || address.starts_with("169.254.");
    if (!address.empty() && !link_local) {
      found.push_back({entry->ifa_name, address, (entry->ifa_flags & IFF_LOOPBACK) != 0});
    }
  }
  return found;
}

Name probe_name(const std::string& name, const WaitLimit& wait_limit) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto answer = std::make_shared<std::promise<std::vector<std::string>>>();
  auto addresses = answer->get_future();
  // The system's resolver cannot be interrupted. If it takes too long, its thread is abandoned; it owns its data.
  std::thread([answer, name] { answer->set_value(resolve(name)); }).detach();
  Name found{name};
  do {
    found.answered = addresses.wait_for(wait_limit.slice()) == std::future_status::ready;
  } while (!found.answered && !wait_limit.over());
  if (found.answered) found.addresses = addresses.get();
  found.milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
  return found;
}

}  // namespace lockstep::doctor
