// The state of a WorkerSession: the messages of its thread, and the values that other threads wait for.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/base/secret.h>
#include <lockstep/membership/messages.h>
#include <lockstep/membership/session/worker_session.h>
#include <lockstep/net/channel.h>

#include <pthread.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace lockstep::membership {

class WorkerSession::State {
 public:
  explicit State(WorkerSessionOptions options);
  ~State();

  void wait_for_assignment();
  void ask_again(const std::string& reason);
  bool await_next_place();
  std::optional<std::string> broken(std::int64_t generation) const;
  std::optional<std::string> lost() const;
  void on_broken(std::function<void(const std::string&)> call);
  void describe_progress_with(std::function<std::string()> words);
  bool recovers() const { return options_.recovers; }
  StoreAt await_store(std::chrono::steady_clock::time_point deadline);
  void publish_store(const StoreAt& store);
  void leave(const Leave& leave);
  void wait_until_gone();
  void stop();

  const RankAssignment& place() const { return *place_; }
  std::string own_address() {
    const std::lock_guard lock(mutex_);
    return own_address_;
  }
  void completed_step(std::int64_t step, const std::optional<StepTime>& time) {
    const std::lock_guard lock(mutex_);
    last_step_ = Heartbeat{step, time ? std::optional(time->whole.count()) : std::nullopt,
                           time ? std::optional(time->own.count()) : std::nullopt};
  }

 private:
  struct Failure {
    std::int64_t generation;
    std::string why;
  };

  const char* service() const { return options_.of_launcher ? "the launcher's job service" : "the scheduler"; }
  const char* worker() const { return options_.of_launcher ? "rank" : "worker"; }

  // Functions of the session's thread (worker_session_messages.cpp).
  net::Awaitable<void> live();
  net::Awaitable<void> converse();
  net::Awaitable<void> keep_sending(std::shared_ptr<net::Channel> channel);
  Register registration(const Hello& hello) const;
  void receive(const FromScheduler& message);
  void receive_assignment(const RankAssignment& assignment);
  void receive_lost(const Lost& lost);
  bool is_hanging() const;
  void end_process(const std::string& reason);
  void say(FromWorker message) {
    outbox_.push_back(std::move(message));
    wake_.cancel();
  }
  void stop_trying(ErrorKind kind, std::string why);
  std::string progress();

  // Functions of the owner (worker_session.cpp). Called with the lock held:
  std::optional<std::string> what_is_lost() const;
  std::string what_is_awaited() const;
  [[noreturn]] void fail_waiting(const std::string& what, std::chrono::steady_clock::duration waited) const;
  [[noreturn]] void fail_without_service(std::chrono::steady_clock::duration waited) const;

  const WorkerSessionOptions options_;
  const std::string where_;
  const std::string node_id_;
  const std::string life_ = random_token();
  const std::string nonce_ = random_token();
  const pthread_t owner_ = ::pthread_self();
  boost::asio::io_context context_{1};
  boost::asio::steady_timer wake_{context_};   // wakes the sending coroutine
  boost::asio::steady_timer pause_{context_};  // between two attempts
  std::shared_ptr<net::Channel> channel_;
  std::deque<FromWorker> outbox_;  // for this connection
  std::string job_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<RankAssignment> assignment_;  // the newest
  std::optional<StoreAt> store_;              // the store of that generation
  std::optional<StoreAt> own_store_;          // to be sent to the scheduler
  std::optional<Leave> leave_;                // to be sent to the scheduler
  std::optional<Again> again_;                // to be sent to the scheduler, until an assignment of a later generation
  std::optional<Failure> broken_;             // the newest certain failure
  std::optional<Failure> lost_;               // the newest certain failure, or a connection that ended
  Heartbeat last_step_;
  std::optional<Wait> wait_;
  std::string own_address_;
  std::string trouble_;                                    // why there is no connection now
  std::optional<std::pair<ErrorKind, std::string>> over_;  // why there will be no connection any more
  std::atomic<bool> complete_{false};                      // the job was completed
  bool connected_ = false;

  std::mutex calling_;  // held in calls of the next two, which may take other locks but not this object's
  std::function<void(const std::string&)> on_broken_;
  std::function<std::string()> describe_progress_;

  std::optional<RankAssignment> place_;  // for the owner's thread
  std::thread thread_;
};

}  // namespace lockstep::membership
