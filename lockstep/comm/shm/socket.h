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

/// A message as it was sent: its bytes and the descriptors that came with it.
struct Packet {
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> fds;
};

/// The most descriptors that one message carries (the kernel allows 253).
inline constexpr std::size_t kMaxPacketFds = 250;

/// Sockets keep the bounds of messages (SOCK_SEQPACKET). Addresses are names without a file ("abstract"): nothing to
/// clean up, seen by the processes of this network namespace. Errors of all: io, naming the call.
UniqueFd listen_at(const std::string& address, int backlog);

/// nullopt when the deadline passes first. Closed at once, and not returned, when the peer runs as another user, whose
/// number `other` gets.
std::optional<UniqueFd> accept_peer(int listener, Deadline deadline, std::optional<uid_t>& other);

/// Error(peer_lost) when nobody listens there, Error(environment) when another user does.
UniqueFd connect_to(const std::string& address);

/// Error(peer_lost) when the peer has gone.
void send_packet(int socket, std::span<const std::byte> bytes, std::span<const int> fds);

/// nullopt when the deadline passes first; a packet without bytes when the peer has closed the connection.
std::optional<Packet> receive_packet(int socket, Deadline deadline);

}  // namespace lockstep::shm
