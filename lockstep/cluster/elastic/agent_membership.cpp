// An agent's ticket, heartbeats and takeover of a silent coordinator, on a thread of its own (the Watcher).
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/cluster/elastic/agent_membership.h>
#include <lockstep/cluster/elastic/store_users.h>

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep::cluster::elastic {
namespace {

Ticket joined(AgentMembership& membership) {
  membership.join(AgentLiveness::Time::clock::now());
  return membership.ticket();
}

}  // namespace

AgentMembership::AgentMembership(KeyValueStorePtr store, const std::string& job, NodeDescription node,
                                 const Policy& policy, Pace pace, bool store_has_holder)
    : store_(std::move(store)),
      keys_(job),
      node_(std::move(node)),
      policy_(policy),
      pace_(pace),
      store_has_holder_(store_has_holder) {}

void AgentMembership::join(Time now) {
  read_state();
  if (state_.phase == Phase::closed) {
    fail(ErrorKind::invalid_argument, "rendezvous",
         "the job of this --rdzv_id has already ended at {} ({}); give a new job an --rdzv_id of its own",
         store_->describe(), state_.why);
  }
  if (store_has_holder_) enter_store(*store_);
  ticket_ = store_->add(keys_.arrivals(), 1);
  joined_ = now;
  store_->set(keys_.node(ticket_), to_text(node_));
  send_heartbeat(now);
}

void AgentMembership::say(const NodeReport& report) {
  const auto heartbeat = report_.heartbeat;
  const auto heard = report_.heard;
  report_ = report;
  report_.heartbeat = heartbeat;
  report_.heard = heard;
  changed_ = true;
}

void AgentMembership::tick(Time now) {
  read_state();
  if (!text_) begin_job(now);
  if (state_.coordinator != ticket_) {
    coordinator_.reset();
    watch_coordinator(now);
  }
  if (changed_ || !sent_ || now - *sent_ >= pace_.heartbeat) send_heartbeat(now);
  if (!text_ || state_.coordinator != ticket_) return;
  if (!coordinator_) coordinator_.emplace(*store_, keys_, policy_, ticket_);
  coordinator_->tick(state_, *text_, now);
  read_state();
}

void AgentMembership::excuse(Time begin, Time end) {
  if (end - begin < pace_.heartbeat) return;
  if (begin - watched_changed_ < policy_.heartbeat_limit) watched_changed_ = end;
  if (coordinator_) coordinator_->excuse(begin, end);
}

std::chrono::milliseconds AgentMembership::interval() const {
  constexpr int kManyNodes = 200;  // a store answers about ten thousand requests a second
  const int crowd = std::max(1, state_.nodes / kManyNodes);
  return std::min(pace_.look * crowd, pace_.heartbeat);
}

void AgentMembership::read_state() {
  std::vector<std::string> keys = {keys_.state()};
  if (report_.stage == Stage::running) keys.push_back(keys_.service_log(report_.round));
  auto values = store_->get_all(keys);
  if (values.size() > 1) service_log_ = {report_.round, values.back().value_or("")};
  auto& text = values.front();
  if (!text || text == text_) return;
  state_ = parse_state(*text);
  text_ = std::move(text);
  if (report_.heard == state_.coordinator) return;
  report_.heard = state_.coordinator;
  changed_ = true;
}

void AgentMembership::send_heartbeat(Time now) {
  ++report_.heartbeat;
  store_->set(keys_.heartbeat(ticket_), to_text(report_));
  if (store_has_holder_) show_life(*store_);
  changed_ = false;
  sent_ = now;
}

// The first agent that joins begins the job. If it died before that, any agent that detects this begins it.
void AgentMembership::begin_job(Time now) {
  if (ticket_ != 1 && now - joined_ < policy_.heartbeat_limit) return;
  take_over({}, std::nullopt);
}

void AgentMembership::watch_coordinator(Time now) {
  if (!text_ || state_.phase == Phase::closed || report_.stage == Stage::left) return;
  const bool is_new = watched_ != state_.coordinator;
  if (!is_new && now - watched_read_ < pace_.heartbeat) return;
  const auto heartbeat = store_->get(keys_.heartbeat(state_.coordinator)).value_or("");
  if (is_new || heartbeat != watched_heartbeat_) watched_changed_ = now;
  watched_ = state_.coordinator;
  watched_read_ = now;
  watched_heartbeat_ = heartbeat;
  const bool left = !heartbeat.empty() && parse_report(heartbeat).stage == Stage::left;
  if (left || now - watched_changed_ >= policy_.heartbeat_limit) take_over(state_, text_);
}

void AgentMembership::take_over(JobState next, const std::optional<std::string>& expected) {
  next.coordinator = ticket_;
  store_->replace(keys_.state(), expected, to_text(next));
  read_state();
}

Flag::Flag() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!fd_) fail(ErrorKind::io, "launch", "cannot make an eventfd: {}", std::strerror(errno));
}

void Flag::raise() noexcept { static_cast<void>(::eventfd_write(fd_.get(), 1)); }

void Flag::lower() noexcept {
  eventfd_t ignored = 0;
  static_cast<void>(::eventfd_read(fd_.get(), &ignored));
}

Watcher::Watcher(AgentMembership membership)
    : membership_(std::move(membership)), ticket_(joined(membership_)), keys_(membership_.keys()) {
  thread_ = std::thread([this] { run(); });
}

Watcher::~Watcher() { stop(); }

void Watcher::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watcher::say(const NodeReport& report) {
  {
    const std::lock_guard lock(mutex_);
    to_say_ = report;
    told_ = false;
  }
  wake_.notify_all();
}

void Watcher::publish_service_log(int round, const std::string& log) {
  {
    const std::lock_guard lock(mutex_);
    to_publish_ = {round, log};
  }
  wake_.notify_all();
}

std::string Watcher::service_log(int round) {
  const std::lock_guard lock(mutex_);
  return service_log_.round == round ? service_log_.text : "";
}

void Watcher::wait_told(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, limit, [this] { return told_ || error_; });
}

JobState Watcher::state() {
  changed_.lower();
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  return state_;
}

int Watcher::over_fd(int round) {
  const std::lock_guard lock(mutex_);
  over_.lower();
  round_ = round;
  publish_locked();
  return over_.fd();
}

void Watcher::publish_locked() {
  changed_.raise();
  const bool running = state_.phase == Phase::running && state_.round == round_ && !is_replaced(state_, ticket_);
  if (!running || error_) over_.raise();
}

void Watcher::run() {
  std::unique_lock lock(mutex_);
  try {
    while (!stop_) {
      const bool saying = to_say_.has_value();
      if (saying) membership_.say(*std::exchange(to_say_, std::nullopt));
      const auto publishing = std::exchange(to_publish_, std::nullopt);
      lock.unlock();
      if (publishing) membership_.publish_service_log(publishing->round, publishing->text);
      const auto begin = AgentLiveness::Time::clock::now();
      membership_.tick(begin);
      membership_.excuse(begin, AgentLiveness::Time::clock::now());
      lock.lock();
      const JobState& now = membership_.state();
      const bool news = now.phase != state_.phase || now.round != state_.round || now.replaced != state_.replaced ||
                        now.refused != state_.refused;
      // Reported now and not when the ranks have ended, because until then the agent's own thread waits for them.
      if (now.awaits != state_.awaits && !now.awaits.empty()) log_warning("lockstep run: {}", now.awaits);
      state_ = now;
      service_log_ = membership_.service_log();
      if (saying && !to_say_) told_ = true;
      if (news) publish_locked();
      wake_.notify_all();
      wake_.wait_for(lock, membership_.interval(), [this] { return stop_ || to_say_ || to_publish_; });
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    error_ = std::current_exception();
    publish_locked();
    wake_.notify_all();
  }
}

}  // namespace lockstep::cluster::elastic
