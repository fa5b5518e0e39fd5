#include "support/raw_server.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

namespace lockstep::test {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

}  // namespace

RawServer::RawServer(std::function<void(int)> serve)
    : serve_(std::move(serve)), socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  const int yes = 1;  // another server may take the port as soon as this one is gone, whatever its connections still do
  EXPECT_EQ(::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), 0);
  EXPECT_EQ(::bind(socket_.get(), raw, length), 0);
  EXPECT_EQ(::listen(socket_.get(), 16), 0);
  EXPECT_EQ(::getsockname(socket_.get(), raw, &length), 0);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

RawServer::~RawServer() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    for (const Connection& connection : connections_) ::shutdown(connection.fd.get(), SHUT_RDWR);
  }
  ::shutdown(socket_.get(), SHUT_RDWR);
  acceptor_.join();
  for (Connection& connection : connections_) connection.thread.join();
}

void RawServer::accept_all() {
  while (true) {
    UniqueFd fd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd) return;
    const std::lock_guard lock(mutex_);
    if (ending_) return;
    const int connection = fd.get();
    connections_.push_back({std::move(fd), std::thread([this, connection] {
                              serve_(connection);
                              ::shutdown(connection, SHUT_RDWR);
                            })});
  }
}

std::string read_some(int connection) {
  std::array<char, 65536> buffer;
  const ssize_t count = ::recv(connection, buffer.data(), buffer.size(), 0);
  return count > 0 ? std::string(buffer.data(), static_cast<std::size_t>(count)) : std::string();
}

bool write_all(int connection, const std::string& text) {
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t count = ::send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

void stay_silent(int connection) {
  while (!read_some(connection).empty()) {
  }
}

UniqueFd connect_to(std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fd.reset();
  return fd;
}

}  // namespace lockstep::test
