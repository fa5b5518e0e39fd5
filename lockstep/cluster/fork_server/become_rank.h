// The setup that makes a fork of the fork server a rank like one started by itself. Part of the library only.
#pragma once

#include <lockstep/cluster/fork_server/channel.h>

#include <array>
#include <csignal>

namespace lockstep::cluster {

/// Settings of the process that the server changed, and that a rank gets back.
struct OwnState {
  std::array<char, 16> name{};
  sigset_t signals{};
};

/// Takes the group, streams, environment and name of the rank that `request` describes, and waits for the launcher's
/// release. Returns when the launcher is this process's parent and has released it; ends the process otherwise.
void become_rank(Message request, const OwnState& own);

}  // namespace lockstep::cluster
