#include "dashboard/browsers.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <cstdlib>

namespace lockstep::test {
namespace {

// Against hangs only.
constexpr timeval kLimit{120, 0};

/// 0, or an errno.
int connect_to(const UniqueFd& socket, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
}

UniqueFd make_socket() { return UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

UniqueFd connect_to_page(std::uint16_t port) {
  UniqueFd socket = make_socket();
  EXPECT_EQ(connect_to(socket, port), 0);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kLimit, sizeof kLimit);
  return socket;
}

void write_all(int socket, const std::string& text) {
  // The server may have closed the connection.
  [[maybe_unused]] const auto sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
}

/// False at the end of the connection.
bool read_some(int socket, std::string& into) {
  std::array<char, 65536> buffer{};
  const auto count = ::recv(socket, buffer.data(), buffer.size(), 0);
  if (count <= 0) return false;
  into.append(buffer.data(), static_cast<std::size_t>(count));
  return true;
}

int status_in(const std::string& head) {
  return head.starts_with("HTTP/1.1 ") ? std::atoi(head.substr(9, 3).c_str()) : 0;
}

/// A frame of a client, which is masked: with zeros, which change nothing.
std::string frame(int opcode, const std::string& content) {
  std::string text(1, static_cast<char>(0x80 | opcode));
  if (content.size() < 126) {
    text += static_cast<char>(0x80 | content.size());
  } else {
    text += static_cast<char>(0x80 | 126);
    text += static_cast<char>(content.size() >> 8);
    text += static_cast<char>(content.size() & 0xff);
  }
  return text + std::string(4, '\0') + content;
}

}  // namespace

Answer request(std::uint16_t port, const std::string& method, const std::string& target) {
  const auto socket = connect_to_page(port);
  write_all(socket.get(), fmt::format("{} {} HTTP/1.1\r\nHost: here\r\n\r\n", method, target));
  std::string text;
  while (read_some(socket.get(), text)) {
  }
  const auto end = text.find("\r\n\r\n");
  if (end == std::string::npos) return {};
  return {status_in(text), text.substr(0, end), text.substr(end + 4)};
}

bool is_closed(std::uint16_t port) { return connect_to(make_socket(), port) == ECONNREFUSED; }

Browser::Browser(std::uint16_t port, const std::string& target) : socket_(connect_to_page(port)) {
  send_bytes(
      fmt::format("GET {} HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                  "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
                  target));
  while (buffer_.find("\r\n\r\n") == std::string::npos && read_more()) {
  }
  status_ = status_in(buffer_);
  buffer_.erase(0, buffer_.find("\r\n\r\n") + 4);
}

bool Browser::read_more() { return read_some(socket_.get(), buffer_); }

std::string Browser::take(std::size_t count) {
  while (buffer_.size() < count && read_more()) {
  }
  const auto text = buffer_.substr(0, count);
  buffer_.erase(0, count);
  return text;
}

std::string Browser::receive() {
  for (;;) {
    const auto head = take(2);
    if (head.size() < 2) return "";
    std::size_t size = static_cast<unsigned char>(head[1]) & 0x7f;
    if (size >= 126) {
      const auto digits = take(size == 126 ? 2 : 8);
      size = 0;
      for (const char digit : digits) size = size << 8 | static_cast<unsigned char>(digit);
    }
    const auto content = take(size);
    const int opcode = head[0] & 0xf;
    if (opcode == 9) send_bytes(frame(10, content));
    if (opcode == 8) return "";
    if (opcode == 1) return content;
  }
}

void Browser::send(const std::string& text) const { send_bytes(frame(1, text)); }
void Browser::send_bytes(const std::string& bytes) const { write_all(socket_.get(), bytes); }

bool Browser::is_closed_in_the_end() {
  std::array<char, 65536> buffer{};
  for (;;) {
    const auto count = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (count > 0) continue;
    return count == 0 || errno == ECONNRESET;
  }
}

}  // namespace lockstep::test
