// Who still needs a store that one of the agents holds: several jobs may meet at one endpoint.
#pragma once

#include <lockstep/cluster/elastic/key_value_store.h>

#include <chrono>
#include <functional>

namespace lockstep::cluster::elastic {

/// Each agent enters, shows life with each heartbeat, and leaves.
void enter_store(KeyValueStore& store);
void show_life(KeyValueStore& store);
void leave_store(KeyValueStore& store);

/// Whether its holder, who has left it, should still stay. An agent that was killed never leaves, but shows no more
/// life either: then not after `silence`. Ask again and again.
class StoreUsers {
 public:
  using Time = std::chrono::steady_clock::time_point;

  StoreUsers(KeyValueStore& store, std::chrono::milliseconds silence, Time now)
      : store_(store), silence_(silence), changed_(now) {}

  bool any(Time now);

 private:
  KeyValueStore& store_;
  std::chrono::milliseconds silence_;
  std::int64_t signs_ = -1;
  Time changed_;
};

/// Returns when nobody uses the store any more, or the user sends a signal; calls `tell` once if that takes long.
void stay_while_used(KeyValueStore& store, std::chrono::milliseconds silence, const std::function<void()>& tell);

}  // namespace lockstep::cluster::elastic
