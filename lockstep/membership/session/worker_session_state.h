// The state of a WorkerSession: the messages of its thread, and the values that other threads wait for.
#pragma once

#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/membership/messages.h>
#include <lockstep/membership/session/session.h>
#include <lockstep/membership/session/worker_session.h>
#include <lockstep/net/channel.h>

#include <pthread.h>

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
  void read_page_with(std::function<PageContent()> read);
  bool recovers() const { return options_.recovers; }
  StoreAt await_store(std::chrono::steady_clock::time_point deadline);
  void publish_store(const StoreAt& store) { take(StoreOpened{store}); }
  void leave(const Leave& leave) { take(leave); }
  void wait_until_gone();
  void stop();

  const RankAssignment& place() const { return *place_; }
  std::string own_address() {
    const std::lock_guard lock(mutex_);
    return own_address_;
  }
  void completed_step(std::int64_t step, const std::optional<StepTime>& time) {
    const std::lock_guard lock(mutex_);
    last_step_.step = step;
    last_step_.step_us = time ? std::optional(time->whole.count()) : std::nullopt;
    last_step_.own_us = time ? std::optional(time->own.count()) : std::nullopt;
  }

 private:
  bool of_launcher() const { return session_.facts.of_launcher; }
  const char* worker() const { return of_launcher() ? "rank" : "worker"; }

  // Functions of the session's thread (worker_session_messages.cpp).
  net::Awaitable<void> live();
  net::Awaitable<void> converse();
  net::Awaitable<void> keep_sending(std::shared_ptr<net::Channel> channel);
  void take(const SessionInput& input);
  void carry_out(const FromWorker& message);
  void carry_out(const GenerationBroken& broken);
  void carry_out(const MustEnd& end);
  void carry_out(const SessionLine& line) { write_log(line.level, line.text); }
  void end_process(const std::string& reason);
  PageContent page();
  Heartbeat report();

  // Functions of the owner (worker_session.cpp). Called with the lock held:
  std::optional<std::string> what_is_lost() const { return loss_in(session_, place_->generation); }
  [[noreturn]] void fail_waiting(const std::string& what, std::chrono::steady_clock::duration waited) const;
  [[noreturn]] void fail_without_service(std::chrono::steady_clock::duration waited) const;

  const WorkerSessionOptions options_;
  const pthread_t owner_ = ::pthread_self();
  boost::asio::io_context context_{1};
  boost::asio::steady_timer wake_{context_};   // wakes the sending coroutine
  boost::asio::steady_timer pause_{context_};  // between two attempts
  std::shared_ptr<net::Channel> channel_;
  std::deque<FromWorker> outbox_;  // for this connection

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  SessionState session_;
  Heartbeat last_step_;
  std::string own_address_;

  std::mutex calling_;  // held in calls of the next two functions, which may take other locks but not this object's
  std::function<void(const std::string&)> on_broken_;
  std::function<PageContent()> read_page_;
  PageContent last_page_;  // before it was removed

  std::optional<RankAssignment> place_;  // for the owner's thread
  std::thread thread_;
};

}  // namespace lockstep::membership
