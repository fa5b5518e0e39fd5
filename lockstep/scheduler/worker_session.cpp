#include <lockstep/base/log.h>
#include <lockstep/scheduler/worker_session.h>
#include <lockstep/scheduler/worker_session_state.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <exception>

namespace lockstep::scheduler {

WorkerSession::State::State(WorkerSessionOptions options)
    : options_(std::move(options)),
      where_(fmt::format("{}:{}", options_.host, options_.port)),
      node_id_(options_.node_id.empty() ? random_token() : options_.node_id) {
  thread_ = std::thread([this] {
    boost::asio::co_spawn(context_, live(), boost::asio::detached);
    run_periodically(context_, options_.check_of_certificates);
    context_.run();
  });
}

WorkerSession::State::~State() {
  context_.stop();
  thread_.join();
}

WorkerSession::WorkerSession(WorkerSessionOptions options) : state_(std::make_unique<State>(std::move(options))) {
  state_->wait_for_assignment();
}

WorkerSession::~WorkerSession() {
  const bool well = std::uncaught_exceptions() == 0;
  WorkerSession::leave(well, well ? "" : "an exception ended its training");
  state_->wait_until_gone();
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
void WorkerSession::describe_progress_with(std::function<std::string()> words) {
  state_->describe_progress_with(std::move(words));
}
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
    log_debug("the scheduler was not told that this worker leaves: {}", trouble.what());
  }
}

}  // namespace lockstep::scheduler
