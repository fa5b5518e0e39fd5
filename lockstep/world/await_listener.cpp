// Non-blocking TCP connects, repeated with pauses that double; self-connections count as refused.
#include <lockstep/base/unique_fd.h>
#include <lockstep/world/await_listener.h>

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::string words_for(int error) { return std::generic_category().message(error); }

// Whether this is a TCP self-connection: no program listens on the port of this host, and the kernel chose the same
// port as the local port. Such a connection would keep the server from binding the port.
bool is_connected_to_itself(int socket) {
  sockaddr_storage own{};
  sockaddr_storage other{};
  socklen_t own_length = sizeof own;
  socklen_t other_length = sizeof other;
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_length) == 0 &&
         ::getpeername(socket, reinterpret_cast<sockaddr*>(&other), &other_length) == 0 && own_length == other_length &&
         std::memcmp(&own, &other, own_length) == 0;
}

Connected failed(int error) { return {{}, words_for(error), error == ECONNREFUSED}; }

Connected try_connect(const addrinfo& address, milliseconds limit) {
  UniqueFd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return failed(errno);
  const bool at_once = ::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0;
  if (!at_once && errno != EINPROGRESS) return failed(errno);
  pollfd ready{socket.get(), POLLOUT, 0};
  if (::poll(&ready, 1, static_cast<int>(limit.count())) <= 0) return failed(ETIMEDOUT);
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error != 0) return failed(error);
  if (is_connected_to_itself(socket.get())) return failed(ECONNREFUSED);
  return {std::move(socket), "", false};
}

}  // namespace

Connected connect_once(const std::string& host, std::uint16_t port, milliseconds limit) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &raw); error != 0) {
    return {{}, std::string("the name does not resolve: ") + ::gai_strerror(error), false};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(raw, &::freeaddrinfo);
  Connected last{{}, words_for(0)};
  bool refused = true;
  for (const auto* entry = list.get(); entry != nullptr && !last.socket; entry = entry->ai_next) {
    last = try_connect(*entry, limit);
    refused = refused && last.refused;
  }
  last.refused = refused;
  return last;
}

std::optional<std::string> await_listener(const std::string& host, std::uint16_t port, milliseconds limit,
                                          const TellWaiting& tell, const std::function<void()>& give_up) {
  constexpr milliseconds kLongestAttempt(2000);
  constexpr milliseconds kLongestPause(250);
  const auto begin = Clock::now();
  const auto deadline = begin + limit;
  auto next_word = begin + seconds(2);
  std::string reason;
  for (milliseconds pause(5);; pause = std::min(pause * 2, kLongestPause)) {
    const auto left = std::max(std::chrono::ceil<milliseconds>(deadline - Clock::now()), milliseconds(1));
    const auto attempt = connect_once(host, port, std::min(left, kLongestAttempt));
    const auto now = Clock::now();
    if (attempt.socket) return std::nullopt;
    // An attempt that the deadline cut short does not describe the other side; the attempt before it does.
    if (now < deadline || reason.empty()) reason = attempt.reason;
    if (now >= deadline) return reason;
    if (give_up) give_up();
    if (now >= next_word) {
      tell(std::chrono::round<seconds>(now - begin), reason);
      next_word = now + seconds(10);
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(pause, deadline - now));
  }
}

}  // namespace lockstep
