// Point-to-point messages over Gloo.
//
// Gloo ends the process when a message does not fit the buffer it is received into, so the length is sent first. And a
// wait that times out closes all connections, so that a pending message cannot be tested by a short wait: a thread
// waits for it.
#pragma once

#include <lockstep/comm/backend.h>
#include <lockstep/comm/gloo/closable_gloo.h>

#include <chrono>
#include <future>
#include <list>
#include <map>
#include <thread>
#include <utility>

namespace lockstep::detail::gloo {

class Messenger {
 public:
  Messenger(ClosableGloo& group, std::chrono::milliseconds timeout) : group_(group), timeout_(timeout) {}
  /// The group must be closed before, unless all messages are complete.
  ~Messenger();
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;

  /// Whether some message is still under way.
  bool busy();

  Backend::Pending send(const at::Tensor& bytes, int destination, int tag);

  /// The n-th message sent with this tag is taken by the n-th receive, whatever the order of the waits.
  Backend::Pending receive(const at::Tensor& bytes, int source, int tag);

 private:
  using Done = std::shared_future<void>;

  Done run(std::packaged_task<void()> task);

  struct Running {
    Done done;
    std::thread thread;
  };

  ClosableGloo& group_;
  std::chrono::milliseconds timeout_;
  std::list<Running> running_;
  std::map<std::pair<int, int>, Done> last_received_;  ///< by source and tag
};

}  // namespace lockstep::detail::gloo
