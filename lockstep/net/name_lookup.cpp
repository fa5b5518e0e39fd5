// A call of getaddrinfo(3) on a thread, with a deadline for the wait; addresses need no lookup.
#include <lockstep/base/error.h>
#include <lockstep/base/threads.h>
#include <lockstep/net/name_lookup.h>

#include <netdb.h>

#include <boost/asio/ip/address.hpp>
#include <cstring>
#include <memory>

namespace lockstep::net {
namespace {

using boost::asio::ip::tcp;

struct LookedUp {
  int error = 0;
  std::vector<tcp::endpoint> endpoints;
};

LookedUp ask_the_system(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  LookedUp found;
  found.error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &raw);
  if (found.error != 0) return found;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(raw, &::freeaddrinfo);
  for (const auto* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    tcp::endpoint endpoint;
    if (entry->ai_addrlen > endpoint.capacity()) continue;
    std::memcpy(endpoint.data(), entry->ai_addr, entry->ai_addrlen);
    endpoint.resize(entry->ai_addrlen);
    found.endpoints.push_back(endpoint);
  }
  if (found.endpoints.empty()) found.error = EAI_NONAME;
  return found;
}

}  // namespace

std::vector<tcp::endpoint> look_up(const std::string& host, std::uint16_t port,
                                   std::chrono::steady_clock::time_point deadline) {
  boost::system::error_code not_an_address;
  const auto address = boost::asio::ip::make_address(host, not_an_address);
  if (!not_an_address) return {tcp::endpoint(address, port)};

  // getaddrinfo has no timeout parameter.
  const auto limit = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  const auto found = call_within(limit, [host, port] { return ask_the_system(host, port); });
  if (!found) fail(ErrorKind::timeout, "network", "the name '{}' was not resolved in time", host);
  if (found->error != 0) {
    fail(ErrorKind::io, "network", "the name '{}' does not resolve: {}", host, ::gai_strerror(found->error));
  }
  return found->endpoints;
}

}  // namespace lockstep::net
