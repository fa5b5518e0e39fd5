// The backends that the hierarchy backend consists of.
#pragma once

#include <lockstep/comm/backend_context.h>
#include <lockstep/comm/hierarchy/hosts.h>

#include <memory>

namespace lockstep::detail::hierarchy {

/// `up` and `down` have the same ranks, and both use memory of `up` in place. There are two, because an operation
/// starts on `down` when it has crossed the network, at a time that differs between ranks: on one backend it would
/// come before a later operation's first half on one rank and after it on another.
struct Engines {
  Hosts hosts;
  std::unique_ptr<Backend> up;      ///< the ranks of this host: towards the network; shm, or self for a single rank
  std::unique_ptr<Backend> across;  ///< the ranks of this rank's column, numbered by host; none where it is in none
  std::unique_ptr<Backend> down;    ///< the ranks of this host: for data from the network
  std::unique_ptr<Backend> direct;  ///< all ranks: for data that differs for each rank
};

/// Makes the backends. Collective over the group.
Engines meet(const BackendContext& context);

}  // namespace lockstep::detail::hierarchy
