// The announcement of rank 0's address, for programs whose processes already have a way to send each other short texts.
#pragma once

#include <lockstep/comm/group.h>

#include <functional>
#include <string>

namespace lockstep {

/// Functions that carry a short text from rank 0 to all other ranks. The thread that connects calls them, and what they
/// throw ends the call of connect().
struct Announcement {
  /// Called on rank 0 once it listens: makes the text known to the other ranks. Called again only if ranks were lost
  /// during the rendezvous; the last text counts.
  std::function<void(const std::string& text)> publish;
  /// Called on the other ranks: waits for the text. The function has a time limit of its own.
  std::function<std::string()> await;
  /// Called repeatedly on rank 0 while it waits for the other ranks, which get an error if it throws. May be empty.
  std::function<void()> give_up{};
};

/// Connects to the other ranks of `world` without a port that is known in advance: rank 0 listens on a free one, and
/// `announcement` carries its address. Of `world`, the rank and the size are used, and local_size where all ranks are
/// on this host; LOCKSTEP_SOCKET_IFNAME names the network interface of rank 0. Several such groups may exist at a time.
/// Each is a job of its own: its failure does not end the others. Environment and errors: those of connect().
Group connect(const World& world, const Announcement& announcement, const GroupOptions& options = {});

}  // namespace lockstep
