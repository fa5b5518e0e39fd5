#include <lockstep/comm/tls/knock.h>

#include <lockstep/base/error.h>

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

namespace lockstep::detail::tls {
namespace {

using Wait = net::TlsStream::Wait;
using Side = net::TlsStream::Side;

constexpr std::string_view kGreeting = "LOCKSTEP TLS 1\r\n";
constexpr std::size_t kTokenBytes = 32;
constexpr std::size_t kRankBytes = 8;
constexpr std::size_t kHelloBytes = kGreeting.size() + kTokenBytes + kRankBytes;

bool speak(Knock& knock) {
  while (!knock.out.empty()) {
    const auto moved = knock.stream->write(reinterpret_cast<const std::byte*>(knock.out.data()), knock.out.size());
    knock.wait = moved.wait;
    if (moved.wait != Wait::nothing) return false;
    knock.out.erase(0, moved.bytes);
  }
  knock.wait = knock.stream->flush();
  return knock.wait == Wait::nothing;
}

bool hear(Knock& knock) {
  const auto wanted = knock.side == Side::server ? kHelloBytes : kGreeting.size();
  while (knock.in.size() < wanted) {
    std::array<std::byte, kHelloBytes> buffer;  // NOLINT: written below
    const auto moved = knock.stream->read(buffer.data(), wanted - knock.in.size());
    if (moved.ended) fail(ErrorKind::io, "tls", "it ended the connection");
    knock.wait = moved.wait;
    if (moved.bytes == 0) return false;
    knock.in.append(reinterpret_cast<const char*>(buffer.data()), moved.bytes);
  }
  if (!knock.in.starts_with(kGreeting)) {
    fail(knock.side == Side::client ? ErrorKind::environment : ErrorKind::data, "tls",
         "it is no rank of this version of Lockstep");
  }
  return true;
}

void welcome(Knock& knock, const std::function<void(const Hello&)>& check) {
  Hello hello{knock.in.substr(kGreeting.size(), kTokenBytes)};
  const auto* digits = knock.in.data() + kGreeting.size() + kTokenBytes;
  std::from_chars(digits, digits + kRankBytes, hello.rank, 16);
  check(hello);
  knock.rank = hello.rank;
  knock.out = kGreeting;
}

}  // namespace

std::string print(const Hello& hello) { return fmt::format("{}{}{:08x}", kGreeting, hello.token, hello.rank); }

bool advance(Knock& knock, const std::function<void(const Hello&)>& check) {
  using Phase = Knock::Phase;
  auto& stream = *knock.stream;
  if (knock.phase == Phase::connects) {
    pollfd ready{knock.socket.get(), POLLOUT, 0};
    if (::poll(&ready, 1, 0) == 0) return false;
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(knock.socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) fail(ErrorKind::io, "tls", "{}", std::strerror(error));
    knock.phase = Phase::shakes_hands;
  }
  if (knock.phase == Phase::shakes_hands) {
    knock.wait = stream.handshake();
    if (knock.wait != Wait::nothing) return false;
    knock.phase = knock.side == Side::client ? Phase::speaks : Phase::hears;
  }
  for (;;) {
    const bool speaks = knock.phase == Phase::speaks;
    if (!(speaks ? speak(knock) : hear(knock))) return false;
    const bool is_last = speaks == (knock.side == Side::server);
    if (is_last) return true;
    if (!speaks) welcome(knock, check);
    knock.phase = speaks ? Phase::hears : Phase::speaks;
  }
}

void refuse(Knock& knock) {
  ::shutdown(knock.socket.get(), SHUT_WR);
  knock.phase = Knock::Phase::stays_refused;
  knock.wait = Wait::to_read;
}

bool stays(const Knock& knock) {
  std::array<char, 4096> unread;  // NOLINT: written below
  const auto count = ::recv(knock.socket.get(), unread.data(), unread.size(), MSG_DONTWAIT);
  return (count > 0 || (count < 0 && errno == EAGAIN)) && std::chrono::steady_clock::now() < knock.deadline;
}

}  // namespace lockstep::detail::tls
