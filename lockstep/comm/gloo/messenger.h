// Point-to-point messages over Gloo.
//
// Gloo ends the process when a message does not fit the buffer into which it is received, so the length is sent first.
// A wait that times out closes all connections, so a short wait cannot test whether a message is complete. A thread
// waits for the message instead.
#pragma once

#include <lockstep/comm/backend.h>
#include <lockstep/comm/gloo/closable_gloo.h>

#include <chrono>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace lockstep::detail::gloo {

class Messenger {
 public:
  Messenger(ClosableGloo& group, std::chrono::milliseconds timeout) : group_(group), timeout_(timeout) {}
  /// Joins the threads: call stop() before, unless all messages are complete.
  ~Messenger();
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;

  /// Whether a message is still pending.
  bool busy();

  /// Ends all waits, including those of later messages, with ErrorKind::peer_lost. Close the group before: Gloo then
  /// wakes threads that wait for a message that has not begun, but not those that wait for a partly received one. Any
  /// thread.
  void stop() noexcept;

  Backend::Pending send(const at::Tensor& bytes, int destination, int tag);

  /// The n-th receive with a tag takes the n-th message that was sent with this tag, whatever the order of the waits.
  Backend::Pending receive(const at::Tensor& bytes, int source, int tag);

 private:
  using Done = std::shared_future<void>;

  /// Operations for which one thread waits, in turn.
  class Waits {
   public:
    void finish(const c10::intrusive_ptr<c10d::Work>& work, std::chrono::milliseconds timeout);
    void stop() noexcept;

   private:
    std::mutex mutex_;
    bool stopped_ = false;
    c10::intrusive_ptr<c10d::Work> current_;
  };

  struct Running {
    Done done;
    std::shared_ptr<Waits> waits;
    std::thread thread;
  };

  Done run(std::function<void(Waits&)> message);

  ClosableGloo& group_;
  std::chrono::milliseconds timeout_;
  std::mutex mutex_;  ///< protects the two members below
  bool stopped_ = false;
  std::list<Running> running_;
  std::map<std::pair<int, int>, Done> last_received_;  ///< by source and tag
};

}  // namespace lockstep::detail::gloo
