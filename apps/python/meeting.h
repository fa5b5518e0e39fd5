// The meeting of a process group's ranks in torch's own store, which ends with a connected lockstep::Group.
#pragma once

#include <lockstep/comm/group.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace lockstep::python {

/// A rank of a group that is to meet the others. A plain value.
struct Member {
  c10::intrusive_ptr<c10d::Store> store;  ///< with keys of this group alone
  int rank = 0;
  int size = 1;
  std::int64_t epoch = 0;             ///< the number of this group among those with the same keys
  std::chrono::milliseconds timeout;  ///< of the meeting, and of one collective
  std::string name{};                 ///< of the group, for messages
};

/// The next epoch of this rank: ranks make their groups in the same order, so it is the same on all of them.
std::int64_t next_epoch(c10d::Store& store, int rank);

/// Leaves this process in the store, so that ranks that wait for it notice its end. The program's own thread calls it
/// before meet().
void announce(const Member& member);

/// The group as two: ranks call collectives in one order, and messages in any.
struct MetGroups {
  Group collectives;
  Group messages;
};

/// Waits until all ranks have arrived, and connects them. `cancelled` ends the wait with Error(peer_lost). The limit of
/// the wait is LOCKSTEP_START_TIMEOUT_S, else the group's. Errors: timeout, naming the ranks that did not arrive;
/// peer_lost where a rank has given up, or has ended on this machine; mismatch of the numbers of ranks; and those of
/// lockstep::connect().
MetGroups meet(const Member& member, const std::shared_ptr<const std::atomic<bool>>& cancelled);

}  // namespace lockstep::python
