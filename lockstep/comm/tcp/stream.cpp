// Reads and writes of a plain socket, several pieces of memory in one system call, and of TLS, one piece at a time; a
// rank's port, token and numeric host as text in the store, nonblocking sockets that listen there or connect; and the
// states of a new connection, without blocking: TCP, the TLS handshake, the hello, and the reply.
#include <lockstep/comm/tcp/stream.h>

#include <lockstep/base/error.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/base/text.h>
#include <lockstep/world/host_addresses.h>

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <string_view>

namespace lockstep::detail::tcp {
namespace {

[[noreturn]] void fail_as_lost(int error) { fail(ErrorKind::io, "tcp", "{}", std::strerror(error)); }

}  // namespace

Stream::Moved Stream::read(std::byte* into, std::size_t bytes) {
  if (tls_) return tls_->read(into, bytes);
  return ahead_begin_ < ahead_end_ ? take_ahead(into, bytes) : read_plain(into, bytes);
}

Stream::Moved Stream::take_ahead(std::byte* into, std::size_t bytes) {
  const std::size_t taken = std::min(bytes, ahead_end_ - ahead_begin_);
  std::memcpy(into, ahead_->data() + ahead_begin_, taken);
  ahead_begin_ += taken;
  return {.bytes = taken};
}

Stream::Moved Stream::read_plain(std::byte* into, std::size_t bytes) {
  if (!ahead_) ahead_ = std::make_unique_for_overwrite<std::array<std::byte, kAhead>>();
  std::array<iovec, 2> parts{{{into, bytes}, {ahead_->data(), kAhead}}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  for (;;) {
    const auto count = ::recvmsg(socket_, &message, MSG_DONTWAIT);
    if (count > 0) {
      const auto all = static_cast<std::size_t>(count);
      ahead_begin_ = 0;
      ahead_end_ = all - std::min(all, bytes);
      return {.bytes = std::min(all, bytes)};
    }
    if (count == 0) fail(ErrorKind::io, "tcp", "it closed the connection");
    if (errno == EAGAIN) return {.wait = Wait::to_read};
    if (errno != EINTR) fail_as_lost(errno);
  }
}

Stream::Moved Stream::write(std::span<const iovec> parts) {
  if (!tls_) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());  // NOLINT: the kernel only reads
    message.msg_iovlen = parts.size();
    for (;;) {
      const auto count = ::sendmsg(socket_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count >= 0) return {.bytes = static_cast<std::size_t>(count)};
      if (errno == EAGAIN) return {.wait = Wait::to_write};
      if (errno != EINTR) fail_as_lost(errno);
    }
  }
  Moved all;
  for (const auto& part : parts) {
    for (std::size_t at = 0; at < part.iov_len;) {
      const auto moved = tls_->write(static_cast<const std::byte*>(part.iov_base) + at, part.iov_len - at);
      if (moved.wait != Wait::nothing) return all.bytes > 0 ? all : moved;
      at += moved.bytes;
      all.bytes += moved.bytes;
      if (++records_with_key_ < records_of_key_) continue;  // a call makes one record
      tls_->change_keys();
      records_with_key_ = 0;
    }
  }
  return all;
}

namespace {

/// The numeric address and port, for the kernel. Error(data) for any other text.
class BoundAddress {
 public:
  explicit BoundAddress(const ListeningAddress& address) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    addrinfo* raw = nullptr;
    if (::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &raw) != 0) {
      fail(ErrorKind::data, "tcp", "'{}' is not an address", address.host);
    }
    list_.reset(raw);
  }

  UniqueFd socket() const {
    return UniqueFd(::socket(list_->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  }
  const sockaddr* get() const { return list_->ai_addr; }
  socklen_t length() const { return list_->ai_addrlen; }

 private:
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list_{nullptr, &::freeaddrinfo};
};

std::uint16_t port_in(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                                            : reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

std::uint16_t own_port(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0 ? port_in(address) : 0;
}

using Wait = Stream::Wait;
using Side = Stream::Side;

constexpr std::string_view kGreeting = "LOCKSTEP TCP 1\r\n";
constexpr std::size_t kTokenBytes = 32;
constexpr std::size_t kRankBytes = 8;
constexpr std::size_t kHelloBytes = kGreeting.size() + kTokenBytes + kRankBytes;

bool speak(Handshake& handshake) {
  while (!handshake.out.empty()) {
    const std::array<iovec, 1> all{{{handshake.out.data(), handshake.out.size()}}};
    const auto moved = handshake.stream->write(all);
    handshake.wait = moved.wait;
    if (moved.wait != Wait::nothing) return false;
    handshake.out.erase(0, moved.bytes);
  }
  handshake.wait = handshake.stream->flush();
  return handshake.wait == Wait::nothing;
}

bool hear(Handshake& handshake) {
  const auto wanted = handshake.side == Side::server ? kHelloBytes : kGreeting.size();
  while (handshake.in.size() < wanted) {
    std::array<std::byte, kHelloBytes> buffer;  // NOLINT: written below
    const auto moved = handshake.stream->read(buffer.data(), wanted - handshake.in.size());
    if (moved.ended) fail(ErrorKind::io, "tcp", "it ended the connection");
    handshake.wait = moved.wait;
    if (moved.bytes == 0) return false;
    handshake.in.append(reinterpret_cast<const char*>(buffer.data()), moved.bytes);
  }
  if (!handshake.in.starts_with(kGreeting)) {
    fail(handshake.side == Side::client ? ErrorKind::environment : ErrorKind::data, "tcp",
         "it is not a rank of this version of Lockstep");
  }
  return true;
}

void welcome(Handshake& handshake, const std::function<void(const Hello&)>& check) {
  Hello hello{handshake.in.substr(kGreeting.size(), kTokenBytes)};
  const auto* digits = handshake.in.data() + kGreeting.size() + kTokenBytes;
  std::from_chars(digits, digits + kRankBytes, hello.rank, 16);
  check(hello);
  handshake.rank = hello.rank;
  handshake.out = kGreeting;
}

}  // namespace

std::string print(const ListeningAddress& address) {
  return fmt::format("{} {} {}", address.port, address.token, address.host);
}

ListeningAddress parse_listening_address(const std::string& text) {
  const auto first = text.find(' ');
  const auto second = text.find(' ', first + 1);
  const auto port = parse_integer(text.substr(0, first));
  if (second == std::string::npos || !port || *port < 1 || *port > 65535) {
    fail(ErrorKind::data, "tcp", "the store holds no address of a rank where one must be");
  }
  return {text.substr(second + 1), static_cast<std::uint16_t>(*port), text.substr(first + 1, second - first - 1)};
}

std::string address_of(const ListeningAddress& address) { return host_and_port(address.host, address.port); }

std::string address_of_peer(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return "?";
  return address_of({address_text(reinterpret_cast<const sockaddr&>(address)), port_in(address), {}});
}

UniqueFd listen_at(ListeningAddress& address) {
  const BoundAddress target(address);
  UniqueFd socket = target.socket();
  if (!socket || ::bind(socket.get(), target.get(), target.length()) != 0 || ::listen(socket.get(), SOMAXCONN) != 0) {
    fail(ErrorKind::environment, "tcp",
         "cannot listen at the address {} of this host: {}. Name another interface with LOCKSTEP_SOCKET_IFNAME",
         address.host, std::strerror(errno));
  }
  address.port = own_port(socket.get());
  return socket;
}

UniqueFd begin_to_connect(const ListeningAddress& address) {
  const BoundAddress target(address);
  UniqueFd socket = target.socket();
  if (!socket || (::connect(socket.get(), target.get(), target.length()) != 0 && errno != EINPROGRESS)) {
    fail(ErrorKind::io, "tcp", "{}", std::strerror(errno));
  }
  return socket;
}

std::string print(const Hello& hello) { return fmt::format("{}{}{:08x}", kGreeting, hello.token, hello.rank); }

bool advance(Handshake& handshake, const std::function<void(const Hello&)>& check) {
  using Phase = Handshake::Phase;
  auto& stream = *handshake.stream;
  if (handshake.phase == Phase::connects) {
    pollfd ready{handshake.socket.get(), POLLOUT, 0};
    if (::poll(&ready, 1, 0) == 0) return false;
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(handshake.socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) fail(ErrorKind::io, "tcp", "{}", std::strerror(error));
    handshake.phase = Phase::tls_handshake;
  }
  if (handshake.phase == Phase::tls_handshake) {
    handshake.wait = stream.handshake();
    if (handshake.wait != Wait::nothing) return false;
    handshake.phase = handshake.side == Side::client ? Phase::sends_hello : Phase::awaits_hello;
  }
  for (;;) {
    const bool speaks = handshake.phase == Phase::sends_hello;
    if (!(speaks ? speak(handshake) : hear(handshake))) return false;
    const bool is_last = speaks == (handshake.side == Side::server);
    if (is_last) return true;
    if (!speaks) welcome(handshake, check);
    handshake.phase = speaks ? Phase::awaits_hello : Phase::sends_hello;
  }
}

void refuse(Handshake& handshake) {
  ::shutdown(handshake.socket.get(), SHUT_WR);
  handshake.phase = Handshake::Phase::refused;
  handshake.wait = Wait::to_read;
}

bool is_refused_peer_there(const Handshake& handshake) {
  std::array<char, 4096> unread;  // NOLINT: written below
  const auto count = ::recv(handshake.socket.get(), unread.data(), unread.size(), MSG_DONTWAIT);
  return (count > 0 || (count < 0 && errno == EAGAIN)) && std::chrono::steady_clock::now() < handshake.deadline;
}

}  // namespace lockstep::detail::tcp
