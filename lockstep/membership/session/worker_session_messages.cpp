// The thread of a session: the connection to the scheduler, and the messages over it.
#include <lockstep/base/log.h>
#include <lockstep/membership/session/stack_of_thread.h>
#include <lockstep/membership/session/worker_session_state.h>
#include <lockstep/net/name_lookup.h>
#include <lockstep/net/sleep.h>

#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <csignal>
#include <exception>
#include <random>

namespace lockstep::membership {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr auto kLastWords = std::chrono::seconds(5);
constexpr int kHung = 1;  // exit code: the same as for other failures

}  // namespace

/// The backoff between attempts to connect: from 0.1 s to 3 s, each time longer by half; with random jitter, so that
/// thousands of workers do not connect at once.
class BackOff {
 public:
  std::chrono::milliseconds next() {
    const std::chrono::milliseconds longest = next_;
    next_ = std::min(next_ * 3 / 2, std::chrono::milliseconds(3000));
    return longest / 2 + std::chrono::milliseconds(random_() % static_cast<unsigned>(longest.count() / 2 + 1));
  }

 private:
  std::chrono::milliseconds next_{100};
  std::minstd_rand random_{std::random_device{}()};
};

net::Awaitable<void> WorkerSession::State::live() {
  BackOff back_off;
  for (;;) {
    std::string why;
    try {
      co_await converse();
    } catch (const Error& error) {
      why = error.message();
      if (error.kind() == ErrorKind::environment) stop_trying(error.kind(), fmt::format("{}: {}", where_, why));
    } catch (const std::exception& error) {
      why = error.what();
    }
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(connected_, false)) {
        back_off = {};
        if (assignment_ && !over_ && !leave_)
          log_warning("{} at {} is lost ({}); connecting again, training goes on", service(), where_, why);
      }
      trouble_ = why;
      changed_.notify_all();
      if (over_) co_return;
    }
    co_await net::sleep(pause_, back_off.next());
  }
}

net::Awaitable<void> WorkerSession::State::converse() {
  net::ChannelLimits limits;
  limits.idle = options_.heartbeat_limit;
  limits.keep_alive = true;
  limits.longest_message = kLongestMessage;
  auto endpoints = net::look_up(options_.host, options_.port, Clock::now() + limits.step);
  const auto channel = std::make_shared<net::Channel>(asio::ip::tcp::socket(context_), limits);
  co_await channel->connect(std::move(endpoints));
  // Names are not compared between the processes of a launcher's job (net/certificates/peer_tls.h).
  const auto expected = options_.of_launcher ? std::nullopt : std::optional(options_.host);
  if (options_.tls) co_await channel->secure_as_client(*options_.tls, expected);
  co_await channel->open_websocket(where_, "/v1/worker");
  const auto greeting = parse_from_scheduler(co_await channel->receive());
  const auto* hello = std::get_if<Hello>(&greeting);
  if (hello == nullptr) fail(ErrorKind::data, "scheduler", "its first message is no hello");
  outbox_.clear();
  {
    const std::lock_guard lock(mutex_);
    own_address_ = channel->own_address();
    connected_ = true;
    outbox_.emplace_back(registration(*hello));
    job_ = hello->job;
  }
  channel_ = channel;
  asio::co_spawn(context_, keep_sending(channel), asio::detached);
  try {
    for (;;) receive(parse_from_scheduler(co_await channel->receive()));
  } catch (...) {
    channel->close();
    channel_.reset();
    wake_.cancel();
    throw;
  }
}

// Sends the messages of the outbox; sends a heartbeat after some time without a message.
net::Awaitable<void> WorkerSession::State::keep_sending(std::shared_ptr<net::Channel> channel) {
  try {
    while (channel_ == channel) {
      FromWorker message = Heartbeat{};
      if (outbox_.empty()) {
        co_await net::sleep(wake_, std::min(options_.heartbeat, options_.heartbeat_limit / 4));
        if (channel_ != channel) co_return;
        const std::lock_guard lock(mutex_);
        message = last_step_;
      }
      if (!outbox_.empty()) {
        message = std::move(outbox_.front());
        outbox_.pop_front();
      }
      co_await channel->send(print(message));
    }
  } catch (const std::exception&) {
    channel->close();  // the receiving coroutine gets the same error and reports it
  }
}

Register WorkerSession::State::registration(const Hello& hello) const {
  Register request;
  request.node_id = node_id_;
  request.named = !options_.node_id.empty();
  request.life = life_;
  request.host = options_.host_name;
  request.machine = options_.machine;
  request.pid = ::getpid();
  request.server = options_.server;
  if (options_.servers > 0) request.servers = options_.servers;
  if (assignment_) {
    request.job = job_;
    request.generation = assignment_->generation;
    request.rank = assignment_->rank;
  }
  if (options_.turn > 0) request.turn = options_.turn;
  request.nonce = nonce_;
  if (hello.secret && !options_.secret.empty()) {
    request.proof = prove(options_.secret, "worker " + life_, hello.nonce);
  }
  return request;
}

void WorkerSession::State::stop_trying(ErrorKind kind, std::string why) {
  const std::lock_guard lock(mutex_);
  if (over_) return;
  if (assignment_ && !leave_) log_warning("{}; training goes on without the scheduler", why);
  over_ = {kind, std::move(why)};
  changed_.notify_all();
}

void WorkerSession::State::receive(const FromScheduler& message) {
  if (const auto* refused = std::get_if<Refused>(&message)) {
    return stop_trying(ErrorKind::environment,
                       fmt::format("{} at {} refuses worker '{}': {}", service(), where_, node_id_, refused->reason));
  }
  if (const auto* ended = std::get_if<Ended>(&message)) {
    complete_ = ended->ok;
    if (!ended->ok && is_hanging()) return end_process(ended->reason);
    return stop_trying(ErrorKind::peer_lost, fmt::format("{} at {} has ended the job: {}", service(), where_,
                                                         ended->ok ? "all workers are done" : ended->reason));
  }
  if (const auto* assignment = std::get_if<RankAssignment>(&message)) {
    if (!options_.secret.empty() && !is_proof(assignment->proof, options_.secret, "scheduler", nonce_)) {
      return stop_trying(
          ErrorKind::environment,
          fmt::format("the server at {} does not have the secret (LOCKSTEP_CLUSTER_SECRET_FILE)", where_));
    }
  }
  if (const auto* lost = std::get_if<Lost>(&message)) return receive_lost(*lost);
  const std::lock_guard lock(mutex_);
  if (const auto* wait = std::get_if<Wait>(&message)) wait_ = *wait;
  if (const auto* assignment = std::get_if<RankAssignment>(&message)) receive_assignment(*assignment);
  if (const auto* store = std::get_if<StoreAt>(&message)) store_ = *store;
  if (std::holds_alternative<Ping>(message)) say(Heartbeat{});
  changed_.notify_all();
}

void WorkerSession::State::receive_assignment(const RankAssignment& assignment) {
  if (!assignment_ || assignment_->generation != assignment.generation) store_.reset();
  assignment_ = assignment;
  if (again_ && again_->generation < assignment.generation) again_.reset();
  // Messages that a new scheduler, or this one on an earlier connection, may not have received.
  if (own_store_ && own_store_->generation == assignment.generation) say(*own_store_);
  if (again_) say(*again_);
  if (leave_) say(*leave_);
}

void WorkerSession::State::receive_lost(const Lost& lost) {
  const auto why = options_.of_launcher
                       ? fmt::format("rank {} is lost: {}", lost.rank, lost.reason)
                       : fmt::format("worker '{}' (rank {}) is lost: {}", lost.node_id, lost.rank, lost.reason);
  log_warning("{} reports that {}", service(), why);
  const auto note = [&](std::optional<Failure>& failure) {
    if (!failure || failure->generation != lost.generation) failure = {lost.generation, why};
  };
  const std::lock_guard calling(calling_);
  {
    const std::lock_guard lock(mutex_);
    if (!assignment_ || lost.generation != assignment_->generation) return;
    note(lost_);
    if (lost.certain) note(broken_);
    changed_.notify_all();
  }
  if (lost.certain && on_broken_) on_broken_(why);
}

bool WorkerSession::State::is_hanging() const {
  const std::lock_guard lock(mutex_);
  return assignment_ && broken_ && broken_->generation == assignment_->generation && !again_ && !leave_;
}

std::string WorkerSession::State::progress() {
  const std::lock_guard calling(calling_);
  const auto words = describe_progress_ ? describe_progress_() : std::string();
  return words.empty() ? "" : fmt::format("it {}; ", words);
}

// Ends the process: there is no other way to end a hanging thread.
void WorkerSession::State::end_process(const std::string& reason) {
  const auto where = fmt::format("{}it is here:\n{}", progress(), stack_of_thread(owner_, std::chrono::seconds(2)));
  log_error("{}; {}", reason, where);
  leave({false, "it hangs: " + where});
  asio::co_spawn(
      context_,
      [this]() -> net::Awaitable<void> {
        asio::steady_timer pause(context_);
        const auto deadline = Clock::now() + kLastWords;
        // The scheduler closes the connection after it has received the message.
        while (channel_ && Clock::now() < deadline) co_await net::sleep(pause, std::chrono::milliseconds(10));
        stop_logging();
        // A launcher that has no report from the service yet would treat an exit code as the program's decision.
        if (options_.of_launcher) ::raise(SIGKILL);
        ::_exit(kHung);
      },
      asio::detached);
}

}  // namespace lockstep::membership
