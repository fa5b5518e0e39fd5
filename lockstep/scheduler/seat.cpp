#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/net/channel.h>
#include <lockstep/net/name_lookup.h>
#include <lockstep/scheduler/back_off.h>
#include <lockstep/scheduler/seat.h>
#include <lockstep/scheduler/secret.h>
#include <lockstep/scheduler/stack_of_thread.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace lockstep::scheduler {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr auto kFirstWords = std::chrono::seconds(2);
constexpr auto kWords = std::chrono::seconds(10);
constexpr auto kFarewell = std::chrono::seconds(5);
constexpr std::int64_t kNoStep = -1;
constexpr int kHung = 1;  // exit code: a failure like others

net::Awaitable<void> sleep(asio::steady_timer& timer, std::chrono::milliseconds time) {
  boost::system::error_code woken;
  timer.expires_after(time);
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, woken));
}

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

class Seat::State {
 public:
  explicit State(SeatOptions options);
  ~State();

  void wait_until_seated();
  void ask_again(const std::string& reason);
  bool await_next_place();
  std::optional<std::string> broken(std::int64_t generation) const;
  void on_broken(std::function<void(const std::string&)> call);
  bool recovers() const { return options_.recovers; }
  StoreAt await_store(Clock::time_point deadline);
  void publish_store(StoreAt store);
  void leave(Leave leave);
  void wait_until_gone();

  const Seated& place() const { return *place_; }
  std::string own_address() {
    const std::lock_guard lock(mutex_);
    return own_address_;
  }
  void completed_step(std::int64_t step) { step_.store(step, std::memory_order_relaxed); }

 private:
  // What the thread does.
  net::Awaitable<void> live();
  net::Awaitable<void> converse();
  net::Awaitable<void> keep_sending(std::shared_ptr<net::Channel> channel);
  Register registration(const Hello& hello) const;
  void hear(const FromScheduler& message);
  void hear_seat(const Seated& seated);
  void hear_lost(const Lost& lost);
  bool is_hanging() const;
  void end_process(const std::string& reason);
  void say(FromWorker message) {
    outbox_.push_back(std::move(message));
    wake_.cancel();
  }
  void stop_trying(ErrorKind kind, std::string why);

  std::string what_is_awaited() const;
  [[noreturn]] void fail_waiting(const std::string& what) const;

  const SeatOptions options_;
  const std::string where_;
  const std::string node_id_;
  const std::string life_ = random_token();
  const std::string nonce_ = random_token();
  const pthread_t owner_ = ::pthread_self();
  asio::io_context context_{1};
  asio::steady_timer wake_{context_};   // of whoever sends
  asio::steady_timer pause_{context_};  // between two attempts
  std::shared_ptr<net::Channel> channel_;
  std::deque<FromWorker> outbox_;  // of this connection
  std::string job_;
  std::atomic<std::int64_t> step_{kNoStep};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Seated> seated_;                                // the newest
  std::optional<StoreAt> store_;                                // of that generation
  std::optional<StoreAt> own_store_;                            // what this worker has to tell
  std::optional<Leave> leave_;                                  // likewise
  std::optional<Again> again_;                                  // likewise, until it is seated in a later generation
  std::optional<std::pair<std::int64_t, std::string>> broken_;  // the newest generation that is, and why
  std::optional<Wait> wait_;
  std::string own_address_;
  std::string trouble_;                                    // why there is no connection just now
  std::optional<std::pair<ErrorKind, std::string>> over_;  // why there will be none
  std::atomic<bool> complete_{false};                      // that it is, well
  bool connected_ = false;

  std::mutex calling_;  // held in a call of on_broken_, which may take other locks but not this object's
  std::function<void(const std::string&)> on_broken_;

  std::optional<Seated> place_;  // for whoever owns this
  std::thread thread_;
};

Seat::State::State(SeatOptions options)
    : options_(std::move(options)),
      where_(fmt::format("{}:{}", options_.host, options_.port)),
      node_id_(options_.node_id.empty() ? random_token() : options_.node_id) {
  thread_ = std::thread([this] {
    asio::co_spawn(context_, live(), asio::detached);
    context_.run();
  });
}

Seat::State::~State() {
  context_.stop();
  thread_.join();
}

// ---- the thread

net::Awaitable<void> Seat::State::live() {
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
        if (seated_ && !over_ && !leave_)
          log_warning("the scheduler at {} is lost ({}); looking for it, training goes on", where_, why);
      }
      trouble_ = why;
      changed_.notify_all();
      if (over_) co_return;
    }
    co_await sleep(pause_, back_off.next());
  }
}

net::Awaitable<void> Seat::State::converse() {
  net::ChannelLimits limits;
  limits.idle = options_.silence;
  limits.keep_alive = true;
  limits.longest_message = kLongestMessage;
  auto endpoints = net::look_up(options_.host, options_.port, Clock::now() + limits.step);
  const auto channel = std::make_shared<net::Channel>(asio::ip::tcp::socket(context_), limits);
  co_await channel->connect(std::move(endpoints));
  if (options_.tls) co_await channel->secure_as_client(*options_.tls, options_.host);
  co_await channel->open_websocket(where_, "/v1/worker");
  const auto greeting = parse_from_scheduler(co_await channel->receive());
  const auto* hello = std::get_if<Hello>(&greeting);
  if (hello == nullptr) fail(ErrorKind::data, "scheduler", "it did not say hello");
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
    for (;;) hear(parse_from_scheduler(co_await channel->receive()));
  } catch (...) {
    channel->close();
    channel_.reset();
    wake_.cancel();
    throw;
  }
}

// A beat, where there is nothing else to say.
net::Awaitable<void> Seat::State::keep_sending(std::shared_ptr<net::Channel> channel) {
  try {
    while (channel_ == channel) {
      FromWorker message = Beat{};
      if (outbox_.empty()) {
        co_await sleep(wake_, std::min(options_.heartbeat, options_.silence / 4));
        const auto step = step_.load(std::memory_order_relaxed);
        if (step != kNoStep) message = Beat{step};
        if (channel_ != channel) co_return;
      }
      if (!outbox_.empty()) {
        message = std::move(outbox_.front());
        outbox_.pop_front();
      }
      co_await channel->send(print(message));
    }
  } catch (const std::exception&) {
    channel->close();  // whoever receives learns the same, and says why
  }
}

Register Seat::State::registration(const Hello& hello) const {
  Register request;
  request.node_id = node_id_;
  request.named = !options_.node_id.empty();
  request.life = life_;
  request.host = options_.host_name;
  request.machine = options_.machine;
  request.pid = ::getpid();
  if (seated_) {
    request.job = job_;
    request.generation = seated_->generation;
    request.rank = seated_->rank;
  }
  request.nonce = nonce_;
  if (hello.secret && !options_.secret.empty()) {
    request.proof = prove(options_.secret, "worker " + life_, hello.nonce);
  }
  return request;
}

void Seat::State::stop_trying(ErrorKind kind, std::string why) {
  const std::lock_guard lock(mutex_);
  if (over_) return;
  if (seated_ && !leave_) log_warning("{}; training goes on without the scheduler", why);
  over_ = {kind, std::move(why)};
  changed_.notify_all();
}

void Seat::State::hear(const FromScheduler& message) {
  if (const auto* refused = std::get_if<Refused>(&message)) {
    return stop_trying(ErrorKind::environment,
                       fmt::format("the scheduler at {} refuses worker '{}': {}", where_, node_id_, refused->reason));
  }
  if (const auto* ended = std::get_if<Ended>(&message)) {
    complete_ = ended->ok;
    if (!ended->ok && is_hanging()) return end_process(ended->reason);
    return stop_trying(ErrorKind::peer_lost, fmt::format("the scheduler at {} has ended the job: {}", where_,
                                                         ended->ok ? "all workers are done" : ended->reason));
  }
  if (const auto* seated = std::get_if<Seated>(&message)) {
    if (!options_.secret.empty() && !is_proof(seated->proof, options_.secret, "scheduler", nonce_)) {
      return stop_trying(
          ErrorKind::environment,
          fmt::format("whoever answers at {} does not know the secret (LOCKSTEP_CLUSTER_SECRET_FILE)", where_));
    }
  }
  if (const auto* lost = std::get_if<Lost>(&message)) return hear_lost(*lost);
  const std::lock_guard lock(mutex_);
  if (const auto* wait = std::get_if<Wait>(&message)) wait_ = *wait;
  if (const auto* seated = std::get_if<Seated>(&message)) hear_seat(*seated);
  if (const auto* store = std::get_if<StoreAt>(&message)) store_ = *store;
  if (std::holds_alternative<Ping>(message)) say(Beat{});
  changed_.notify_all();
}

void Seat::State::hear_seat(const Seated& seated) {
  if (!seated_ || seated_->generation != seated.generation) store_.reset();
  seated_ = seated;
  if (again_ && again_->generation < seated.generation) again_.reset();
  // What another scheduler, or this one on another connection, may not have heard.
  if (own_store_ && own_store_->generation == seated.generation) say(*own_store_);
  if (again_) say(*again_);
  if (leave_) say(*leave_);
}

void Seat::State::hear_lost(const Lost& lost) {
  log_warning("the scheduler says that worker '{}' (rank {}) is lost: {}", lost.node_id, lost.rank, lost.reason);
  if (!lost.certain) return;
  const auto why = fmt::format("worker '{}' (rank {}) is lost: {}", lost.node_id, lost.rank, lost.reason);
  const std::lock_guard calling(calling_);
  {
    const std::lock_guard lock(mutex_);
    if (!seated_ || lost.generation != seated_->generation) return;
    if (!broken_ || broken_->first != lost.generation) broken_ = {lost.generation, why};
    changed_.notify_all();
  }
  if (on_broken_) on_broken_(why);
}

bool Seat::State::is_hanging() const {
  const std::lock_guard lock(mutex_);
  return options_.recovers && seated_ && broken_ && broken_->first == seated_->generation && !again_ && !leave_;
}

// Nothing less ends a thread that does not look.
void Seat::State::end_process(const std::string& reason) {
  const auto stack = stack_of_thread(owner_, std::chrono::seconds(2));
  log_error("{}; it is here:\n{}", reason, stack);
  leave({false, fmt::format("it hangs:\n{}", stack)});
  asio::co_spawn(
      context_,
      [this]() -> net::Awaitable<void> {
        asio::steady_timer pause(context_);
        co_await sleep(pause, std::chrono::milliseconds(500));
        stop_logging();
        ::_exit(kHung);
      },
      asio::detached);
}

// ---- those who wait for it

std::string Seat::State::what_is_awaited() const {
  if (!connected_)
    return fmt::format("the scheduler at {} ({})", where_, trouble_.empty() ? "no answer yet" : trouble_);
  if (!wait_) return fmt::format("the scheduler at {} to answer", where_);
  if (!wait_->reason.empty()) return fmt::format("its node id '{}': {}", node_id_, wait_->reason);
  return fmt::format("the other workers, {} of {} are there", wait_->present, wait_->wanted);
}

void Seat::State::fail_waiting(const std::string& what) const {
  fail(ErrorKind::timeout, "scheduler",
       "this worker waited {:.1f} s for {}; start the scheduler and all workers with the same MS_SCHED_HOST, "
       "MS_SCHED_PORT and MS_WORKER_NUM, or wait longer (LOCKSTEP_START_TIMEOUT_S)",
       seconds(options_.start_timeout), what);
}

void Seat::State::wait_until_seated() {
  const auto start = Clock::now();
  const auto deadline = start + options_.start_timeout;
  auto next_words = start + kFirstWords;
  std::unique_lock lock(mutex_);
  while (!seated_ && !over_) {
    changed_.wait_until(lock, std::min(deadline, next_words));
    const auto now = Clock::now();
    if (seated_ || over_) break;
    if (now >= deadline) fail_waiting(what_is_awaited());
    if (now < next_words) continue;
    log_warning("this worker waits for {}: {:.0f} s of at most {:.0f} s", what_is_awaited(), seconds(now - start),
                seconds(options_.start_timeout));
    next_words = now + kWords;
  }
  if (!seated_) throw Error(over_->first, "scheduler", over_->second);
  place_ = seated_;
}

void Seat::State::publish_store(StoreAt store) {
  const std::lock_guard lock(mutex_);
  own_store_ = store;
  asio::post(context_, [this, store] { say(store); });
}

void Seat::State::ask_again(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (leave_ || over_ || again_ || place_->generation != seated_->generation) return;
  again_ = Again{place_->generation, reason};
  asio::post(context_, [this, again = *again_] { say(again); });
}

bool Seat::State::await_next_place() {
  std::unique_lock lock(mutex_);
  const auto start = Clock::now();
  auto next_words = start + kFirstWords;
  const auto come = [&] { return over_ || seated_->generation > place_->generation; };
  while (!changed_.wait_until(lock, next_words, come)) {
    log_warning("this worker keeps its state and waits for {}: {:.0f} s", what_is_awaited(),
                seconds(Clock::now() - start));
    next_words = Clock::now() + kWords;
  }
  if (seated_->generation > place_->generation) {
    place_ = seated_;
    return true;
  }
  if (complete_) return false;
  throw Error(over_->first, "scheduler", over_->second);
}

std::optional<std::string> Seat::State::broken(std::int64_t generation) const {
  const std::lock_guard lock(mutex_);
  return broken_ && broken_->first == generation ? std::optional(broken_->second) : std::nullopt;
}

void Seat::State::on_broken(std::function<void(const std::string&)> call) {
  const std::lock_guard calling(calling_);
  on_broken_ = std::move(call);
  if (!on_broken_) return;
  if (const auto why = broken(place_->generation)) on_broken_(*why);
}

StoreAt Seat::State::await_store(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  const auto is_broken = [&] { return broken_ && broken_->first == place_->generation; };
  const bool there = changed_.wait_until(lock, deadline, [&] { return store_ || over_ || is_broken(); });
  if (store_ && store_->generation == place_->generation) return *store_;
  if (is_broken()) throw Error(ErrorKind::peer_lost, "scheduler", broken_->second);
  if (there && over_) throw Error(over_->first, "scheduler", over_->second);
  fail_waiting(connected_ ? "rank 0 to open the store" : what_is_awaited());
}

void Seat::State::leave(Leave leave) {
  const std::lock_guard lock(mutex_);
  if (leave_ || over_) return;
  leave_ = leave;
  asio::post(context_, [this, leave] { say(leave); });
}

// The scheduler closes the connection when it has heard that this worker leaves.
void Seat::State::wait_until_gone() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kFarewell, [&] { return over_ || !connected_; });
}

Seat::Seat(SeatOptions options) : state_(std::make_unique<State>(std::move(options))) { state_->wait_until_seated(); }

Seat::~Seat() {
  const bool well = std::uncaught_exceptions() == 0;
  leave(well, well ? "" : "an exception ended its training");
  state_->wait_until_gone();
}

const Seated& Seat::place() const noexcept { return state_->place(); }
std::string Seat::own_address() const { return state_->own_address(); }
bool Seat::recovers() const noexcept { return state_->recovers(); }
void Seat::ask_again(const std::string& reason) { state_->ask_again(reason); }
bool Seat::await_next_place() { return state_->await_next_place(); }
std::optional<std::string> Seat::broken(std::int64_t generation) const { return state_->broken(generation); }
void Seat::on_broken(std::function<void(const std::string&)> call) { state_->on_broken(std::move(call)); }
void Seat::publish_store(const std::string& host, std::uint16_t port) {
  state_->publish_store({place().generation, host, port});
}
StoreAt Seat::await_store(Clock::time_point deadline) { return state_->await_store(deadline); }
void Seat::completed_step(std::int64_t step) noexcept { state_->completed_step(step); }

void Seat::leave(bool ok, const std::string& error) noexcept {
  try {
    state_->leave({ok, error});
  } catch (const std::exception& trouble) {
    log_debug("the scheduler was not told that this worker leaves: {}", trouble.what());
  }
}

}  // namespace lockstep::scheduler
