// Ports of this machine that a test may use.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

namespace lockstep::test {

/// A socket on a port of its own; listening, it keeps everybody else from it.
class Port {
 public:
  Port() : socket_(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_any;
    socklen_t length = sizeof address;
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(socket_.get(), raw, length), 0);
    EXPECT_EQ(::listen(socket_.get(), 1), 0);
    EXPECT_EQ(::getsockname(socket_.get(), raw, &length), 0);
    number_ = std::to_string(ntohs(address.sin6_port));
  }
  const std::string& number() const { return number_; }
  void free() { socket_.reset(); }

 private:
  UniqueFd socket_;
  std::string number_;
};

/// A port that nobody listens on just now.
inline std::string free_port() { return Port().number(); }

/// Whether a server could be started on that port.
inline bool can_listen(std::uint16_t port) {
  const UniqueFd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_any;
  address.sin6_port = htons(port);
  return ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
         ::listen(socket.get(), 1) == 0;
}

}  // namespace lockstep::test
