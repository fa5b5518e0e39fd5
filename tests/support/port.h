// Ports of this machine that a test may use.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::test {

/// A socket that listens on all addresses of this host; empty where the port is taken.
inline UniqueFd listen_on(std::uint16_t port) {
  UniqueFd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_any;
  address.sin6_port = htons(port);
  const bool listens = ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                       ::listen(socket.get(), 1) == 0;
  return listens ? std::move(socket) : UniqueFd();
}

/// Whether a server could be started on that port.
inline bool can_listen(std::uint16_t port) { return listen_on(port).get() >= 0; }

/// A port that no test of this machine takes until this process ends: its name as an abstract Unix socket is ours. It
/// is below the ports that the kernel gives to connections. free_port.py has the same names.
inline std::uint16_t reserve_port() {
  static std::mutex mutex;
  static std::vector<UniqueFd> names;
  static std::mt19937 random(std::random_device{}());
  const std::lock_guard lock(mutex);
  while (true) {
    const auto port = std::uniform_int_distribution<std::uint16_t>(10'000, 28'000)(random);
    UniqueFd name(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const auto text = "lockstep_test_port_" + std::to_string(port);
    std::ranges::copy(text, address.sun_path + 1);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
    if (::bind(name.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 || !can_listen(port)) continue;
    names.push_back(std::move(name));
    return port;
  }
}

/// A port that nobody listens on just now.
inline std::string free_port() { return std::to_string(reserve_port()); }

}  // namespace lockstep::test
