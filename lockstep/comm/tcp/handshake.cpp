// The states of a new connection, without blocking: TCP, the TLS handshake, the hello, and the reply.
#include <lockstep/comm/tcp/handshake.h>

#include <lockstep/base/error.h>

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

namespace lockstep::detail::tcp {
namespace {

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
