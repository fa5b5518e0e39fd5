// The detection of lost ranks: the end of a process on this host, and the loss of another host.
//
// A process that dies closes its connections. A host that loses its power or its cable does not, and TCP does not probe
// by default: a side that only waits for data would wait forever, and a side that has sent data, for a quarter of an
// hour. The kernel probes when a socket option is set, at no cost to the program. c10d sets none of these
// options nor give access to their sockets, so the sockets are found among the descriptors of this process.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/comm/meet/rendezvous.h>

#include <chrono>
#include <set>
#include <string>
#include <vector>

namespace lockstep::detail {

/// Holds a pidfd of each other rank's process that is visible from here (same machine, same PID namespace). The kernel
/// makes it readable when the process ends, even before the process is reaped and when its number is reused.
class PeerWatch {
 public:
  PeerWatch(const std::vector<RankInfo>& members, int self);

  /// Ranks that have ended, in order; waits up to `limit` for the first. Thread-safe.
  std::vector<int> ended(std::chrono::milliseconds limit = std::chrono::milliseconds(0)) const;

 private:
  struct Watched {
    int rank;
    UniqueFd process;  ///< none when the process had already ended
  };
  std::vector<Watched> watched_;
};

/// TCP keepalive and user timeout for connections that other libraries make, so that the loss of a host breaks them.
/// Records the sockets that exist now; `notice_lost_hosts` then sets options on those made since.
class SocketsMadeSince {
 public:
  enum class Which {
    all,
    spoken_on,  ///< this process has sent data on it
  };

  SocketsMadeSince();

  /// Each TCP connection to an address other than this host's loopback breaks ("Connection timed out") when nothing has
  /// arrived from the peer for `limit` although this kernel sent probes. The peer's kernel answers, however busy or
  /// stopped its process is, unless a stopped process is in the middle of a transfer. Never throws: on a failure only
  /// this detection is missing.
  void notice_lost_hosts(std::chrono::milliseconds limit, Which which = Which::all) const noexcept;

 private:
  std::set<std::string> before_;  ///< "socket:[INODE]"
};

}  // namespace lockstep::detail
