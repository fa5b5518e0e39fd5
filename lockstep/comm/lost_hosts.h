// Connections that notice when the host at their other end is gone.
//
// A process that dies closes its connections. A host that loses its power or its cable does not, and TCP by itself asks
// nobody: who only waits for data would wait for ever, and who has sent some, for a quarter of an hour. The kernel asks
// when it is told to, at no cost to the program. c10d and Gloo neither tell it nor give their sockets away, so these
// are found among the descriptors of this process.
#pragma once

#include <chrono>
#include <set>
#include <string>

namespace lockstep::detail {

/// Notes the sockets there are; `notice_lost_hosts` then takes care of those that were made since.
class SocketsMadeSince {
 public:
  enum class Which {
    all,
    spoken_on,  ///< this process has sent something there
  };

  SocketsMadeSince();

  /// Each connection over TCP to another address than this host's loopback breaks ("Connection timed out") once nothing
  /// came from its other end for `limit` although this kernel asked. That end's kernel answers, however busy or stopped
  /// its process is, unless a stopped one is in the middle of a transfer. Never throws: without this everything works,
  /// but for the noticing.
  void notice_lost_hosts(std::chrono::milliseconds limit, Which which = Which::all) const noexcept;

 private:
  std::set<std::string> before_;  ///< "socket:[INODE]"
};

}  // namespace lockstep::detail
