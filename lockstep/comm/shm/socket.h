// Local sockets that carry small messages and file descriptors, with deadlines.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::shm {

using Deadline = std::chrono::steady_clock::time_point;

/// A message as it was sent: its bytes and its descriptors.
struct Packet {
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> fds;
};

/// The most descriptors that one message carries (the kernel allows 253).
inline constexpr std::size_t kMaxPacketFds = 250;

/// Sockets keep message boundaries (SOCK_SEQPACKET). Addresses are names without a file ("abstract"): they need no
/// cleanup and are visible to the processes of this network namespace. All functions throw Error(io) that names the
/// call.
UniqueFd listen_at(const std::string& address, int backlog);

/// nullopt when the deadline passes first, or when the peer runs as another user: the connection is then closed, and
/// `other` receives the user's number.
std::optional<UniqueFd> accept_peer(int listener, Deadline deadline, std::optional<uid_t>& other);

/// Error(peer_lost) when no process listens there, Error(environment) when a process of another user does.
UniqueFd connect_to(const std::string& address);

/// Error(peer_lost) when the peer has closed the connection.
void send_packet(int socket, std::span<const std::byte> bytes, std::span<const int> fds);

/// nullopt when the deadline passes first; a packet without bytes when the peer has closed the connection.
std::optional<Packet> receive_packet(int socket, Deadline deadline);

}  // namespace lockstep::shm
