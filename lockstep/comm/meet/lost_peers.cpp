// Lost processes by pidfd and poll, and lost hosts by TCP keepalive, set on the sockets found in /proc/self/fd.
#include <lockstep/base/log.h>
#include <lockstep/base/text.h>
#include <lockstep/comm/meet/lost_peers.h>

#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <map>

namespace lockstep::detail {

PeerWatch::PeerWatch(const std::vector<RankInfo>& members, int self) {
  const auto& me = members.at(static_cast<std::size_t>(self));
  for (const auto& peer : members) {
    if (peer.rank == self || peer.pid_namespace != me.pid_namespace) continue;
    UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
    // If pidfd_open fails for a reason other than "no such process" (an old kernel, no descriptors left), this peer is
    // not watched, and only the backend can detect its end.
    if (!process && errno != ESRCH) continue;
    // Compared after opening, so the descriptor is of this process and not of a later one with the same number.
    if (process && started_ticks(peer.pid) != peer.started_ticks) process.reset();
    watched_.push_back({peer.rank, std::move(process)});
  }
}

std::vector<int> PeerWatch::ended(std::chrono::milliseconds limit) const {
  std::vector<pollfd> polled;
  std::vector<int> ranks;
  bool some_ended_before = false;
  for (const auto& peer : watched_) {
    polled.push_back({peer.process.get(), POLLIN, 0});
    some_ended_before = some_ended_before || !peer.process;
  }
  const int wait = some_ended_before ? 0 : static_cast<int>(limit.count());
  if (::poll(polled.data(), polled.size(), wait) < 0) return ranks;
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    if (!watched_[i].process || (polled[i].revents & POLLIN) != 0) ranks.push_back(watched_[i].rank);
  }
  return ranks;
}

namespace {

/// The sockets of this process by their names in /proc, with one descriptor for each.
std::map<std::string, int> open_sockets() {
  std::map<std::string, int> sockets;
  std::error_code ignored;  // descriptors may appear and disappear meanwhile
  for (std::filesystem::directory_iterator entry("/proc/self/fd", ignored), end; entry != end;
       entry.increment(ignored)) {
    const auto target = std::filesystem::read_symlink(entry->path(), ignored).string();
    const auto descriptor = parse_integer(entry->path().filename().native());
    if (descriptor && target.starts_with("socket:")) sockets.emplace(target, static_cast<int>(*descriptor));
  }
  return sockets;
}

bool is_loopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return (ntohl(v4.sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) ||
         (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) && v6.sin6_addr.s6_addr[12] == IN_LOOPBACKNET);
}

bool is_connection_to_another_host(int socket) {
  int type = 0;
  socklen_t length = sizeof type;
  if (::getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_STREAM) return false;
  sockaddr_storage peer{};
  length = sizeof peer;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return false;
  return (peer.ss_family == AF_INET || peer.ss_family == AF_INET6) && !is_loopback(peer);
}

/// False where the kernel does not report it.
bool has_sent(int socket) {
  tcp_info info{};
  socklen_t length = sizeof info;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_data_segs_out > 0;
}

bool set(int socket, int level, int option, int value) {
  return ::setsockopt(socket, level, option, &value, sizeof value) == 0;
}

/// Sends a probe after a third of the limit without data, and then after every sixth of it.
bool ask_when_silent(int socket, std::chrono::milliseconds limit) {
  const auto part = [&](int divisor) { return std::max(1, static_cast<int>(limit.count() / 1000 / divisor)); };
  return set(socket, IPPROTO_TCP, TCP_KEEPIDLE, part(3)) && set(socket, IPPROTO_TCP, TCP_KEEPINTVL, part(6)) &&
         set(socket, IPPROTO_TCP, TCP_KEEPCNT, 4) && set(socket, SOL_SOCKET, SO_KEEPALIVE, 1) &&
         // The same limit for data that was sent but not acknowledged.
         set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(limit.count()));
}

}  // namespace

SocketsMadeSince::SocketsMadeSince() {
  for (const auto& [name, descriptor] : open_sockets()) before_.insert(name);
}

void SocketsMadeSince::notice_lost_hosts(std::chrono::milliseconds limit, Which which) const noexcept {
  try {
    for (const auto& [name, socket] : open_sockets()) {
      if (before_.contains(name) || !is_connection_to_another_host(socket)) continue;
      if (which == Which::spoken_on && !has_sent(socket)) continue;
      if (!ask_when_silent(socket, limit)) log_debug("a host that is lost may not be noticed on {}", name);
    }
  } catch (const std::exception& error) {
    log_debug("hosts that are lost may not be noticed: {}", error.what());
  }
}

}  // namespace lockstep::detail
