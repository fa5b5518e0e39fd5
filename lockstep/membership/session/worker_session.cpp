// The blocking half of a worker's session: waits for rank, store and next generation, while the I/O thread runs.
#include <lockstep/base/log.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/membership/membership.h>
#include <lockstep/membership/session/worker_session.h>
#include <lockstep/membership/session/worker_session_state.h>

#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <utility>

namespace lockstep::membership {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr auto kFirstWords = std::chrono::seconds(2);
constexpr auto kWords = std::chrono::seconds(10);
constexpr auto kLastReport = std::chrono::seconds(5);
constexpr auto kLastReconnect = std::chrono::seconds(2);

SessionFacts facts_of(const WorkerSessionOptions& options) {
  SessionFacts facts;
  facts.where = host_and_port(options.host, options.port);
  facts.node_id = options.node_id.empty() ? random_token() : options.node_id;
  facts.named = !options.node_id.empty();
  facts.life = random_token();
  facts.host = options.host_name;
  facts.machine = options.machine;
  facts.pid = ::getpid();
  facts.server = options.server;
  facts.servers = options.servers;
  facts.turn = options.turn;
  facts.secret = options.secret;
  facts.nonce = random_token();
  facts.of_launcher = options.of_launcher;
  facts.recovers = options.recovers;
  return facts;
}

}  // namespace

WorkerSession::State::State(WorkerSessionOptions options) : options_(std::move(options)) {
  session_.facts = facts_of(options_);
  thread_ = std::thread([this] {
    boost::asio::co_spawn(context_, live(), boost::asio::detached);
    net::run_periodically(context_, options_.check_of_certificates);
    context_.run();
  });
}

WorkerSession::State::~State() { stop(); }

void WorkerSession::State::stop() {
  context_.stop();
  if (thread_.joinable()) thread_.join();
}

WorkerSession::WorkerSession(WorkerSessionOptions options) : state_(std::make_unique<State>(std::move(options))) {
  state_->wait_for_assignment();
}

WorkerSession::~WorkerSession() {
  const bool well = std::uncaught_exceptions() == 0;
  WorkerSession::leave(well, well ? "" : "an exception ended its training");
  state_->wait_until_gone();
}

void WorkerSession::end_at_exit(const std::string& error) noexcept {
  leave(false, error);
  state_->wait_until_gone();
  state_->stop();
}

const MemberPlace& WorkerSession::place() const noexcept { return state_->place(); }
std::string WorkerSession::own_address() const { return state_->own_address(); }
bool WorkerSession::recovers() const noexcept { return state_->recovers(); }
void WorkerSession::ask_again(const std::string& reason) { state_->ask_again(reason); }
bool WorkerSession::await_next_place() { return state_->await_next_place(); }
std::optional<std::string> WorkerSession::broken(std::int64_t generation) const { return state_->broken(generation); }
std::optional<std::string> WorkerSession::lost() const { return state_->lost(); }
void WorkerSession::throw_if_lost() const {
  if (const auto why = lost()) throw Error(ErrorKind::peer_lost, "scheduler", *why);
}
void WorkerSession::on_broken(std::function<void(const std::string&)> call) { state_->on_broken(std::move(call)); }
void WorkerSession::read_page_with(std::function<PageContent()> read) { state_->read_page_with(std::move(read)); }
void WorkerSession::publish_store(const std::string& host, std::uint16_t port) {
  state_->publish_store({place().generation, host, port});
}
StoreAddress WorkerSession::await_store(std::chrono::steady_clock::time_point deadline) {
  const auto store = state_->await_store(deadline);
  return {store.host, static_cast<std::uint16_t>(store.port)};
}
void WorkerSession::completed_step(std::int64_t step, const std::optional<StepTime>& time) noexcept {
  state_->completed_step(step, time);
}

void WorkerSession::leave(bool ok, const std::string& error) noexcept {
  try {
    state_->leave({ok, error});
  } catch (const std::exception& trouble) {
    log_debug("the scheduler was not informed that this worker leaves: {}", trouble.what());
  }
}

void WorkerSession::State::fail_waiting(const std::string& what, Clock::duration waited) const {
  if (of_launcher()) {
    fail(ErrorKind::timeout, "connect",
         "this rank waited {:.1f} s for {}; read the logs of the ranks that did not register, or wait longer "
         "(LOCKSTEP_START_TIMEOUT_S)",
         seconds_in(waited), what);
  }
  fail(ErrorKind::timeout, "scheduler",
       "this worker waited {:.1f} s for {}; start the scheduler and all workers with the same MS_SCHED_HOST, "
       "MS_SCHED_PORT and MS_WORKER_NUM, or wait longer (LOCKSTEP_START_TIMEOUT_S)",
       seconds_in(waited), what);
}

void WorkerSession::State::fail_without_service(Clock::duration waited) const {
  fail(ErrorKind::timeout, of_launcher() ? "connect" : "scheduler",
       "a rank is lost, and this {} waited {:.1f} s for {}, without which no other can take its place; start the job "
       "again, and it continues from the newest checkpoint{}",
       worker(), seconds_in(waited), describe_wait(session_),
       of_launcher() ? "" : ", or restart the scheduler sooner (LOCKSTEP_START_TIMEOUT_S: wait longer)");
}

void WorkerSession::State::wait_for_assignment() {
  const auto start = Clock::now();
  const auto deadline = start + options_.start_timeout;
  auto next_words = start + kFirstWords;
  std::unique_lock lock(mutex_);
  while (!session_.assignment && !session_.over) {
    changed_.wait_until(lock, std::min(deadline, next_words));
    const auto now = Clock::now();
    if (session_.assignment || session_.over) break;
    if (now >= deadline) fail_waiting(describe_wait(session_), options_.start_timeout);
    if (now < next_words) continue;
    log_warning("this {} waits for {}: {:.0f} s of at most {:.0f} s", worker(), describe_wait(session_),
                seconds_in(now - start), seconds_in(options_.start_timeout));
    next_words = now + kWords;
  }
  if (!session_.assignment) throw Error(session_.over->first, "scheduler", session_.over->second);
  place_ = session_.assignment;
}

void WorkerSession::State::ask_again(const std::string& reason) { take(Again{place_->generation, reason}); }

bool WorkerSession::State::await_next_place() {
  std::unique_lock lock(mutex_);
  const auto start = Clock::now();
  auto next_words = start + kFirstWords;
  // Only the service can end the wait for other members. Without the service it would never end.
  const Clock::duration longest = of_launcher() ? options_.heartbeat_limit : options_.start_timeout;
  auto heard = start;
  bool connected = true;
  const auto come = [&] {
    if (std::exchange(connected, session_.connected) || session_.connected) heard = Clock::now();
    return session_.over || session_.assignment->generation > place_->generation;
  };
  while (!changed_.wait_until(lock, std::min(next_words, heard + longest), come)) {
    const auto now = Clock::now();
    if (!session_.connected && now >= heard + longest) fail_without_service(now - heard);
    if (now < next_words) continue;
    log_warning("this {} keeps its state and waits for {}: {:.0f} s", worker(), describe_wait(session_),
                seconds_in(now - start));
    next_words = now + kWords;
  }
  if (session_.assignment->generation > place_->generation) {
    place_ = session_.assignment;
    return true;
  }
  if (session_.complete) return false;
  throw Error(session_.over->first, "scheduler", session_.over->second);
}

std::optional<std::string> WorkerSession::State::broken(std::int64_t generation) const {
  const std::lock_guard lock(mutex_);
  return session_.broken && session_.broken->generation == generation ? std::optional(session_.broken->why)
                                                                      : std::nullopt;
}

std::optional<std::string> WorkerSession::State::lost() const {
  const std::lock_guard lock(mutex_);
  return what_is_lost();
}

void WorkerSession::State::on_broken(std::function<void(const std::string&)> call) {
  const std::lock_guard calling(calling_);
  on_broken_ = std::move(call);
  if (!on_broken_) return;
  if (const auto why = broken(place_->generation)) on_broken_(*why);
}

void WorkerSession::State::read_page_with(std::function<PageContent()> read) {
  const std::lock_guard calling(calling_);
  if (!read && read_page_) last_page_ = read_page_();
  read_page_ = std::move(read);
}

StoreAt WorkerSession::State::await_store(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  const auto start = Clock::now();
  const bool there =
      changed_.wait_until(lock, deadline, [&] { return session_.store || session_.over || what_is_lost(); });
  if (session_.store && session_.store->generation == place_->generation) return *session_.store;
  if (const auto why = what_is_lost()) throw Error(ErrorKind::peer_lost, "scheduler", *why);
  if (there && session_.over) throw Error(session_.over->first, "scheduler", session_.over->second);
  if (there) {
    fail(ErrorKind::peer_lost, "scheduler", "the job is in generation {} already, and this worker's was {}",
         session_.store->generation, place_->generation);
  }
  fail_waiting(session_.connected ? "rank 0 to open the store" : describe_wait(session_), Clock::now() - start);
}

// The scheduler confirms the Leave. A connection that is lost just now is made again for it.
void WorkerSession::State::wait_until_gone() {
  std::unique_lock lock(mutex_);
  const auto longest = session_.connected ? kLastReport : kLastReconnect;
  changed_.wait_for(lock, longest, [&] { return session_.over.has_value(); });
}

}  // namespace lockstep::membership
