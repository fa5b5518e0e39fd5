// Abstract Unix sockets of type SOCK_SEQPACKET: descriptors are sent by SCM_RIGHTS, and peers must be of the same user.
#include <lockstep/base/error.h>
#include <lockstep/comm/shm/socket.h>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace lockstep::shm {
namespace {

constexpr std::size_t kMaxPacketBytes = 16 << 10;

[[noreturn]] void fail_call(const char* call, ErrorKind kind = ErrorKind::io) {
  fail(kind, "shm", "{}: {}", call, std::generic_category().message(errno));
}

std::pair<sockaddr_un, socklen_t> abstract_address(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof(address.sun_path)) {
    fail(ErrorKind::invalid_argument, "shm", "socket name \"{}\" is longer than {}", name,
         sizeof(address.sun_path) - 1);
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // the leading 0 makes it abstract
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

UniqueFd make_socket() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) fail_call("socket");
  return fd;
}

// Whether there is data to read (or the end) before the deadline.
bool wait_readable(int fd, Deadline deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd watched{fd, POLLIN, 0};
    const int found = ::poll(&watched, 1, static_cast<int>(std::clamp<long>(left, 0, 1 << 30)));
    if (found > 0) return true;
    if (found == 0) return false;
    if (errno != EINTR) fail_call("poll");
  }
}

/// nullopt when the user is not known.
std::optional<uid_t> user_of_peer(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer.uid;
}

// Space for the ancillary data of kMaxPacketFds descriptors, aligned as the kernel requires.
struct alignas(cmsghdr) FdRoom {
  std::array<char, CMSG_SPACE(kMaxPacketFds * sizeof(int))> bytes;
};

std::vector<UniqueFd> take_fds(msghdr& message) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

UniqueFd listen_at(const std::string& address, int backlog) {
  UniqueFd fd = make_socket();
  const auto [raw, size] = abstract_address(address);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&raw), size) != 0) fail_call("bind");
  if (::listen(fd.get(), backlog) != 0) fail_call("listen");
  return fd;
}

std::optional<UniqueFd> accept_peer(int listener, Deadline deadline, std::optional<uid_t>& other) {
  while (wait_readable(listener, deadline)) {
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd && errno != EINTR && errno != ECONNABORTED) fail_call("accept");
    const auto user = fd ? user_of_peer(fd.get()) : std::nullopt;
    if (user == ::geteuid()) return fd;
    if (user) other = user;
  }
  return std::nullopt;
}

UniqueFd connect_to(const std::string& address) {
  UniqueFd fd = make_socket();
  const auto [raw, size] = abstract_address(address);
  while (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&raw), size) != 0) {
    if (errno == EINTR) continue;
    fail_call("connect to rank 0 (is it in the same network namespace?)", ErrorKind::peer_lost);
  }
  if (const auto user = user_of_peer(fd.get()); user && *user != ::geteuid()) {
    fail(ErrorKind::environment, "shm",
         "the first rank of this host is a process of the user with number {}, and this rank is one of user {}: ranks "
         "of "
         "a host share memory, so start them all as one user",
         *user, ::geteuid());
  }
  return fd;
}

void send_packet(int socket, std::span<const std::byte> bytes, std::span<const int> fds) {
  iovec data{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  FdRoom room{};
  if (!fds.empty()) {
    message.msg_control = room.bytes.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(part), fds.data(), fds.size_bytes());
  }
  while (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    fail_call("sendmsg", errno == EPIPE || errno == ECONNRESET ? ErrorKind::peer_lost : ErrorKind::io);
  }
}

std::optional<Packet> receive_packet(int socket, Deadline deadline) {
  if (!wait_readable(socket, deadline)) return std::nullopt;
  Packet packet;
  packet.bytes.resize(kMaxPacketBytes);
  iovec data{packet.bytes.data(), packet.bytes.size()};
  FdRoom room{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = room.bytes.data();
  message.msg_controllen = room.bytes.size();
  ssize_t count = -1;
  while ((count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  if (count < 0 && errno != ECONNRESET) fail_call("recvmsg");
  packet.fds = take_fds(message);
  packet.bytes.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  // The kernel drops descriptors that exceed the limit of the process.
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    fail(ErrorKind::io, "shm", "no room for the descriptors of other ranks; raise `ulimit -n`");
  }
  return packet;
}

}  // namespace lockstep::shm
