// The key-value store through which ranks meet.
#pragma once

#include <lockstep/comm/stores.h>
#include <lockstep/scheduler/seat.h>
#include <lockstep/world/world.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace lockstep::detail {

struct OpenedStore {
  StorePtr store;          ///< keys of one meeting, under the world's prefix
  bool held_here = false;  ///< it lives in this process and ends with it
  std::string where;       ///< "10.0.0.1:29500" or a path, for messages
  std::string host;        ///< the same for programs; empty where it is no TCP store
  std::uint16_t port = 0;
};

/// Opens the next meeting (rank 0), or comes to it. `seat`: with Meeting::scheduler, through which rank 0 tells where
/// its store is. Error(io) when rank 0 cannot open the port, Error(timeout) when the store of rank 0 cannot be reached,
/// or is that of an earlier meeting for all the time.
OpenedStore open_store(const World& world, std::chrono::milliseconds timeout, scheduler::Seat* seat = nullptr);

/// A connection of its own to the meeting that a start-up of this rank opens or waits for, with the same keys: at
/// host:port, or in the file of `world`. `found`: the start-up has come to it. Errors as above.
StorePtr visit_store(const World& world, const std::string& host, std::uint16_t port, bool found,
                     std::chrono::milliseconds timeout);

}  // namespace lockstep::detail
