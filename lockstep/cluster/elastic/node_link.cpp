// The thread of a launcher's membership: finds the service, keeps the connection with it, and sends heartbeats.
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/base/threads.h>
#include <lockstep/cluster/elastic/node_link.h>
#include <lockstep/membership/membership.h>
#include <lockstep/net/channel.h>
#include <lockstep/net/name_lookup.h>
#include <lockstep/store/sockets.h>
#include <lockstep/world/await_listener.h>

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace lockstep::cluster::elastic {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPause(100);
/// A host that answers that no process listens there: its launcher has ended, and a service that does not move is lost.
constexpr milliseconds kRefusals(2000);
constexpr milliseconds kProbe(500);
/// A program that does not answer as a service does may be one that is about to end.
constexpr std::chrono::seconds kOtherProgram(10);
constexpr milliseconds kConnect(2000);
constexpr std::chrono::seconds kTellJoining(2);
constexpr std::chrono::seconds kTellAgain(10);

using membership::seconds_in;

}  // namespace

class NodeLink::State {
 public:
  explicit State(NodeLinkOptions options) : options_(std::move(options)) {
    session_.facts = {options_.job, options_.node, options_.policy, random_token(), random_token(), ""};
    const SignalsBlocked for_the_thread;
    thread_ = std::thread([this] { run(); });
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { stop(); }

  void stop() {
    context_.stop();
    if (thread_.joinable()) thread_.join();
  }
  void await_welcome();
  Ticket ticket() {
    const std::lock_guard lock(mutex_);
    return session_.ticket;
  }
  JobView view();
  milliseconds clock_ahead() {
    const std::lock_guard lock(mutex_);
    return clock_ahead_;
  }
  int changed_fd() const { return changed_.fd(); }
  int over_fd(int round);
  RankLosses losses(int round);
  bool take_replacement();
  void await_goodbye(milliseconds limit);
  bool may_join_again() {
    const std::lock_guard lock(mutex_);
    return session_.over && session_.over->again;
  }
  void take(const NodeSessionInput& input);

 private:
  // Functions of the thread.
  void run() noexcept;
  net::Awaitable<void> live();
  net::Awaitable<void> converse(const ServiceAt& at);
  net::Awaitable<void> keep_sending(std::shared_ptr<net::Channel> channel);
  net::Awaitable<void> beat();
  /// The silence after which a connection counts as lost.
  milliseconds idle() const {
    return std::max((options_.moves ? options_.policy.heartbeat_limit : options_.limit) / 2, milliseconds(1000));
  }
  void note_disconnected(bool was_silent);
  /// What follows from the time without a connection.
  void judge(const ServiceAt& at, const std::string& why);
  void end(ErrorKind kind, std::string reason, bool again);

  std::uint64_t current_connection() {
    const std::lock_guard lock(mutex_);
    return connection_;
  }

  // Called with the lock held.
  void show_view();
  void raise_flags();
  [[noreturn]] void throw_end() const;

  const NodeLinkOptions options_;
  asio::io_context context_{1};
  asio::steady_timer wake_{context_};   // wakes the sending coroutine
  asio::steady_timer pause_{context_};  // between two attempts
  asio::steady_timer beat_{context_};
  std::shared_ptr<net::Channel> channel_;
  std::deque<FromNode> outbox_;                 // for this connection
  Clock::time_point connected_ = Clock::now();  // the end of the last connection, or the begin of the first attempt
  bool reached_ = false;                        // the last attempt connected with something
  std::optional<Clock::time_point> refused_since_;
  Clock::time_point told_ = Clock::now();

  std::mutex mutex_;  ///< guards the members below
  std::condition_variable news_;
  NodeSession session_;
  std::uint64_t connection_ = 0;  ///< counts connections
  std::string awaited_;           ///< the last report that the round waits for a lost node
  milliseconds clock_ahead_{0};
  int round_ = 0;  ///< the round of over_
  Flag changed_;
  Flag over_;
  std::thread thread_;
};

void NodeLink::State::run() noexcept {
  try {
    asio::co_spawn(context_, live(), net::rethrow);
    asio::co_spawn(context_, beat(), net::rethrow);
    context_.run();
  } catch (const std::exception& error) {
    end(ErrorKind::io, error.what(), false);
  }
}

net::Awaitable<void> NodeLink::State::live() {
  for (;;) {
    ServiceAt at;
    std::string why;
    bool final = false;
    auto kind = ErrorKind::io;
    reached_ = false;
    try {
      at = options_.find();
      co_await converse(at);
    } catch (const Error& error) {
      why = error.message();
      kind = error.kind();
      const bool unknown_place = at.host.empty() && error.kind() != ErrorKind::timeout;
      const bool joined = ticket() != 0;
      const bool no_service = !joined && error.kind() == ErrorKind::data && Clock::now() - connected_ >= kOtherProgram;
      final = (error.kind() == ErrorKind::environment && !(joined && options_.moves)) || no_service ||
              (unknown_place && error.kind() != ErrorKind::peer_lost);
    } catch (const std::exception& error) {
      why = error.what();
    }
    note_disconnected(kind == ErrorKind::timeout);
    if (final) end(kind, fmt::format("{}: {}", options_.name, why), false);
    judge(at, why);
    {
      const std::lock_guard lock(mutex_);
      if (session_.over || session_.said_goodbye) co_return;
    }
    co_await net::sleep(pause_, kPause);
  }
}

net::Awaitable<void> NodeLink::State::converse(const ServiceAt& at) {
  net::ChannelLimits limits;
  limits.step = options_.moves ? kConnect : std::min(options_.limit, milliseconds(5000));
  limits.idle = idle();
  limits.keep_alive = true;
  limits.longest_message = kLongestNodeMessage;
  auto endpoints = net::look_up(at.host, at.port, Clock::now() + limits.step);
  const auto channel = std::make_shared<net::Channel>(asio::ip::tcp::socket(context_), limits);
  channel->set_terms({.switched_on_by = "LOCKSTEP_ENCRYPT"});
  co_await channel->connect(std::move(endpoints));
  reached_ = true;
  // Names are not compared between the processes of a launcher's job (net/tls_contexts.h).
  if (at.tls) co_await channel->secure_as_client(*at.tls, std::nullopt);
  co_await channel->open_websocket(host_and_port(at.host, at.port), "/v1/node");
  // The other side has answered: before that, no process has its end open.
  if (at.secret.empty() && !at.tls && store::is_of_other_user(channel->descriptor())) {
    if (!store::find_peer_user(channel->descriptor()))
      fail(ErrorKind::peer_lost, "rendezvous", "the process that listens there has just ended");
    fail(ErrorKind::environment, "rendezvous",
         "it belongs to another user of this host, and there is no secret; set LOCKSTEP_STORE_SECRET");
  }
  outbox_.clear();
  channel_ = channel;
  {
    const std::lock_guard lock(mutex_);
    ++connection_;
    session_.facts.secret = at.secret;
  }
  asio::co_spawn(context_, keep_sending(channel), asio::detached);
  try {
    for (;;) {
      take(parse_from_node_service(co_await channel->receive()));
      const std::lock_guard lock(mutex_);
      if (session_.over) break;
      if (session_.connected) refused_since_.reset();
    }
  } catch (...) {
    channel->close();
    channel_.reset();
    wake_.cancel();
    throw;
  }
  channel->close();
  channel_.reset();
  wake_.cancel();
}

net::Awaitable<void> NodeLink::State::keep_sending(std::shared_ptr<net::Channel> channel) {
  try {
    while (channel_ == channel) {
      if (outbox_.empty()) {
        co_await net::sleep(wake_, options_.heartbeat);
        continue;
      }
      const auto message = std::move(outbox_.front());
      outbox_.pop_front();
      co_await channel->send(print(message));
    }
  } catch (const std::exception&) {
    channel->close();  // the receiving coroutine gets the same error and reports it
  }
}

net::Awaitable<void> NodeLink::State::beat() {
  for (;;) {
    co_await net::sleep(beat_, options_.heartbeat);
    take(NodeBeat{});
  }
}

void NodeLink::State::note_disconnected(bool was_silent) {
  {
    const std::lock_guard lock(mutex_);
    if (session_.connected) connected_ = told_ = Clock::now() - (was_silent ? idle() : milliseconds(0));
  }
  take(NodeDisconnected{});
}

void NodeLink::State::judge(const ServiceAt& at, const std::string& why) {
  const auto now = Clock::now();
  bool joined = false;
  {
    const std::lock_guard lock(mutex_);
    if (session_.over || session_.said_goodbye) return;
    joined = session_.ticket != 0;
  }
  const auto waited = now - connected_;
  if (now - told_ >= (joined && told_ == connected_ ? options_.limit * 2 / 5 : joined ? kTellAgain : kTellJoining)) {
    told_ = now;
    if (joined) {
      log_warning(
          "lockstep run: {} has not answered for {:.1f} s ({}); this launcher goes on for at most {:.1f} s "
          "without it (read_timeout)",
          options_.name, seconds_in(waited), why, seconds_in(options_.limit));
    } else {
      log_warning("lockstep run: waiting for {}: {:.0f} s of at most {:.0f} s ({})", options_.name, seconds_in(waited),
                  seconds_in(options_.join_limit), why);
    }
  }
  if (!joined) {
    if (waited < options_.join_limit) return;
    return end(
        ErrorKind::timeout,
        fmt::format("cannot reach {} within {:.1f} s: {}. {}{}", options_.name, seconds_in(options_.join_limit), why,
                    options_.moves ? "One of the job's launchers runs it: this host must reach theirs (--local_addr)"
                                   : "The launcher on the host that --rdzv_endpoint (or --master_addr) names "
                                     "opens it: start it there, and check the address and that this host can "
                                     "reach it",
                    reached_ ? "; if another program listens there, choose another port" : ""),
        false);
  }
  const bool refused = !options_.moves && !at.host.empty() && connect_once(at.host, at.port, kProbe).refused;
  if (!refused) refused_since_.reset();
  if (refused && !refused_since_) refused_since_ = now;
  constexpr auto kWithEtcd =
      "With --rdzv_backend etcd a job survives the loss of any of its launchers; the same command goes on from the "
      "newest checkpoint";
  if (refused && now - *refused_since_ >= kRefusals) {
    return end(ErrorKind::peer_lost,
               fmt::format("{} is lost: the launcher that ran it has ended ({}). {}", options_.name, why, kWithEtcd),
               false);
  }
  if (waited < options_.limit) return;
  if (options_.moves) {
    return end(ErrorKind::timeout,
               fmt::format("{} has not answered for {:.1f} s, and this launcher found no other one ({}). The same "
                           "command goes on from the newest checkpoint",
                           options_.name, seconds_in(waited), why),
               true);
  }
  end(ErrorKind::timeout,
      fmt::format("{} has not answered for {:.1f} s: the host of the launcher that runs it, or the network to it, has "
                  "failed ({}). {}",
                  options_.name, seconds_in(waited), why, kWithEtcd),
      true);
}

void NodeLink::State::end(ErrorKind kind, std::string reason, bool again) {
  const std::lock_guard lock(mutex_);
  if (!session_.over) session_.over = SessionEnd{kind, std::move(reason), again};
  raise_flags();
}

void NodeLink::State::take(const NodeSessionInput& input) {
  const std::lock_guard lock(mutex_);
  const bool was_over = session_.over.has_value();
  auto messages = step(session_, input);
  if (!was_over && session_.over) session_.over->reason = fmt::format("{}: {}", options_.name, session_.over->reason);
  const auto* message = std::get_if<FromNodeService>(&input);
  if (message != nullptr && std::holds_alternative<JobView>(*message)) show_view();
  if (session_.over) raise_flags();
  news_.notify_all();
  if (messages.empty()) return;
  // With the lock held, so that messages are sent in the order of their making.
  asio::post(context_, [this, connection = connection_, messages = std::move(messages)] {
    if (connection != current_connection()) return;  // all is sent again on another one
    outbox_.insert(outbox_.end(), messages.begin(), messages.end());
    wake_.cancel();
  });
}

// Reported now and not when the ranks have ended, because until then the launcher's own thread waits for them.
void NodeLink::State::show_view() {
  const auto& view = *session_.view;
  clock_ahead_ = milliseconds(wall_clock_milliseconds() - view.sent_at);
  if (view.job.awaits != awaited_ && !view.job.awaits.empty()) log_warning("lockstep run: {}", view.job.awaits);
  awaited_ = view.job.awaits;
  raise_flags();
}

void NodeLink::State::raise_flags() {
  changed_.raise();
  const auto& view = session_.view;
  const bool running = view && view->job.phase == Phase::running && view->job.round == round_ && !view->replaced;
  if (!running || session_.over) over_.raise();
  news_.notify_all();
}

void NodeLink::State::throw_end() const { throw Error(session_.over->kind, "rendezvous", session_.over->reason); }

void NodeLink::State::await_welcome() {
  std::unique_lock lock(mutex_);
  news_.wait(lock, [this] { return session_.view || session_.over; });
  if (session_.over) throw_end();
}

JobView NodeLink::State::view() {
  changed_.lower();
  const std::lock_guard lock(mutex_);
  if (session_.over) throw_end();
  return *session_.view;
}

int NodeLink::State::over_fd(int round) {
  const std::lock_guard lock(mutex_);
  over_.lower();
  round_ = round;
  raise_flags();
  return over_.fd();
}

RankLosses NodeLink::State::losses(int round) {
  const std::lock_guard lock(mutex_);
  return session_.view && session_.view->job.round == round ? session_.view->losses : RankLosses();
}

bool NodeLink::State::take_replacement() {
  take(NodeWish{});
  std::unique_lock lock(mutex_);
  news_.wait_for(lock, options_.limit, [this] { return is_answered(session_) || session_.over; });
  if (!is_answered(session_)) session_.answer = {session_.wishes, false};  // it is not sent again
  return session_.answer.granted;
}

void NodeLink::State::await_goodbye(milliseconds limit) {
  std::unique_lock lock(mutex_);
  news_.wait_for(lock, limit, [this] { return session_.said_goodbye || session_.over; });
}

NodeLink::NodeLink(NodeLinkOptions options) : state_(std::make_unique<State>(std::move(options))) {
  state_->await_welcome();
}
NodeLink::~NodeLink() = default;
Ticket NodeLink::ticket() const { return state_->ticket(); }
JobView NodeLink::view() { return state_->view(); }
milliseconds NodeLink::clock_ahead() const { return state_->clock_ahead(); }
int NodeLink::changed_fd() const { return state_->changed_fd(); }
int NodeLink::over_fd(int round) { return state_->over_fd(round); }
void NodeLink::report(const NodeReport& report) { state_->take(report); }
void NodeLink::report_ends(const RanksEnded& ended) { state_->take(ended); }
void NodeLink::publish_meeting(const RanksMeet& meet) { state_->take(meet); }
void NodeLink::publish_losses(const RanksLost& lost) { state_->take(lost); }
RankLosses NodeLink::losses(int round) { return state_->losses(round); }
bool NodeLink::take_replacement() { return state_->take_replacement(); }
void NodeLink::await_goodbye(milliseconds limit) { state_->await_goodbye(limit); }
bool NodeLink::may_join_again() const { return state_->may_join_again(); }

}  // namespace lockstep::cluster::elastic
