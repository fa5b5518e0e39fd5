// Point-to-point messages over Gloo.
//
// Gloo ends the process when a message does not fit the buffer it is received into, so the length is sent first. And a
// wait that times out closes all connections, so that a pending message cannot be tested by a short wait: a thread
// waits for it.
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
  /// Joins the threads: stop() must have been called, unless all messages are complete.
  ~Messenger();
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;

  /// Whether some message is still under way.
  bool busy();

  /// Ends all waits, those of later messages too, with ErrorKind::peer_lost. The group must be closed before: Gloo then
  /// wakes who waits for a message that has not begun, but not who waits for one of which a part has come. Any thread.
  void stop() noexcept;

  Backend::Pending send(const at::Tensor& bytes, int destination, int tag);

  /// The n-th message sent with this tag is taken by the n-th receive, whatever the order of the waits.
  Backend::Pending receive(const at::Tensor& bytes, int source, int tag);

 private:
  using Done = std::shared_future<void>;

  /// What one thread waits for, in turn.
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
  std::mutex mutex_;  ///< of the two below
  bool stopped_ = false;
  std::list<Running> running_;
  std::map<std::pair<int, int>, Done> last_received_;  ///< by source and tag
};

}  // namespace lockstep::detail::gloo
