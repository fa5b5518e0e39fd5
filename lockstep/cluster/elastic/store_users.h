// The users of a store that one of the agents hosts. They may be agents of several jobs; the store stays while it has
// any.
#pragma once

#include <lockstep/cluster/elastic/key_value_store.h>

#include <chrono>
#include <functional>

namespace lockstep::cluster::elastic {

/// Each agent enters once, calls show_life with each heartbeat, and leaves.
void enter_store(KeyValueStore& store);
void show_life(KeyValueStore& store);
void leave_store(KeyValueStore& store);

/// Whether the agent that hosts the store has to stay after it has left its job. A killed agent never leaves, but it
/// does not call show_life either: it counts as lost after `heartbeat_limit`. Call `any` repeatedly.
class StoreUsers {
 public:
  using Time = std::chrono::steady_clock::time_point;

  StoreUsers(KeyValueStore& store, std::chrono::milliseconds heartbeat_limit, Time now)
      : store_(store), heartbeat_limit_(heartbeat_limit), changed_(now) {}

  bool any(Time now);

 private:
  KeyValueStore& store_;
  std::chrono::milliseconds heartbeat_limit_;
  std::int64_t signs_ = -1;
  Time changed_;
};

/// Returns when the store has no users any more, or the user sends a signal; calls `tell` once if that takes long.
void stay_while_used(KeyValueStore& store, std::chrono::milliseconds heartbeat_limit,
                     const std::function<void()>& tell);

/// Raises the soft limit towards the hard one: the agent that hosts a store has a socket for each of its clients, and
/// the usual 1024 are too few for many nodes. Ranks that are started later inherit the limit. Best effort.
void raise_open_file_limit() noexcept;

}  // namespace lockstep::cluster::elastic
