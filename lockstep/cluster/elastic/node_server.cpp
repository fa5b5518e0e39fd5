// The thread of a service of launchers: it carries out what the state machine puts out.
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/threads.h>
#include <lockstep/cluster/elastic/node_server.h>
#include <lockstep/cluster/elastic/node_service.h>
#include <lockstep/membership/service/listener.h>
#include <lockstep/store/sockets.h>
#include <lockstep/version.h>

#include <fmt/format.h>

#include <atomic>
#include <thread>
#include <utility>

namespace lockstep::cluster::elastic {
namespace {

using Clock = std::chrono::steady_clock;

std::string refuse_other_user(int socket) {
  return store::is_of_other_user(socket) ? "it belongs to another user, and this service has no secret" : "";
}

membership::ListenerOptions listener_options(NodeServerOptions& options) {
  membership::ListenerOptions listener;
  listener.sockets = std::move(options.sockets);
  if (options.secret.empty() && !options.tls) listener.refuse = refuse_other_user;
  listener.tls_setting = "LOCKSTEP_ENCRYPT";
  listener.target = "/v1/node";
  listener.name = "a launcher of Lockstep";
  listener.tls = options.tls;
  listener.longest_message = kLongestNodeMessage;
  return listener;
}

NodeServiceState begin(const NodeServerOptions& options) {
  NodeServiceState service;
  service.secret = options.secret;
  if (options.place) service.only_job = options.place->job;
  service.stepped = Clock::now();
  const auto saved = options.place ? options.place->state.load() : std::nullopt;
  if (!saved) return service;
  try {
    service.jobs[options.place->job] = read_job(*saved, service.stepped);
  } catch (const Error& error) {
    fail(ErrorKind::data, "rendezvous",
         "the state of job '{}' cannot be used: {}; give this job another --rdzv_id, and start the same version of "
         "lockstep on all nodes",
         options.place->job, error.message());
  }
  return service;
}

}  // namespace

class NodeServer::State {
 public:
  explicit State(NodeServerOptions options)
      : options_(std::move(options)),
        service_(begin(options_)),
        listener_(std::in_place, listener_options(options_), calls()) {
    const SignalsBlocked for_the_threads;
    if (options_.place) {
      writer_.emplace(options_.place->state,
                      [this](bool saved) { listener_->post([this, saved] { end_save(saved); }); });
    }
    thread_ = std::thread([this] { serve(); });
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    stop();
    thread_.join();
    if (writer_) writer_->drop();  // no launcher sees a change that is not saved
  }

  int users() const { return serves_ ? users_.load() : 0; }
  bool serves() const { return serves_; }
  void stop() {
    if (!stopping_.exchange(true)) listener_->stop();
  }

 private:
  membership::ListenerCalls calls() {
    return {.opened =
                [this](auto id, const auto& address) {
                  step(membership::Opened{id, address});
                },
            .received = [this](auto id, const auto& text) { take(id, text); },
            .closed =
                [this](auto id, const auto& why, bool by_us) {
                  step(membership::Closed{id, why, by_us});
                },
            .tick = [this] { step(membership::Tick{}); },
            .status = [this] { return status_json(service_, std::string(version()), started_, Clock::now()); },
            .has_registered = [this](auto id) { return is_node(service_, id); },
            .is_admitted = [this](auto id) { return is_node(service_, id); }};
  }
  void serve() noexcept;
  void take(membership::ConnectionId id, const std::string& text);
  void step(const NodeServiceInput& input);
  void carry_out(const NodeServiceOutput& output);

  void save_if_changed();
  void end_save(bool saved);

  NodeServerOptions options_;
  const Clock::time_point started_ = Clock::now();
  NodeServiceState service_;
  HeldOutputs held_;  ///< where the state is saved
  std::optional<membership::Listener> listener_;
  std::optional<membership::StateWriter> writer_;

  std::atomic<int> users_ = 0;
  std::atomic<bool> serves_ = true;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

void NodeServer::State::serve() noexcept {
  try {
    listener_->run();
  } catch (const std::exception& error) {
    log_error("the service of the job's launchers ended: {}", error.what());
  }
  serves_ = false;
  stopping_ = true;
  listener_->close_all();
}

void NodeServer::State::take(membership::ConnectionId id, const std::string& text) {
  if (text.size() > kLongestOfStranger && !is_node(service_, id)) {
    fail(ErrorKind::data, "message", "{} bytes before it is a node", text.size());
  }
  step(NodeReceived{id, parse_from_node(text)});
}

void NodeServer::State::step(const NodeServiceInput& input) {
  const auto now = Clock::now();
  auto outputs = elastic::step(service_, input, now, random_token);
  if (options_.place) outputs = held_.take(std::move(outputs));
  for (const auto& output : outputs) carry_out(output);
  save_if_changed();
  users_ = count_users(service_, now);
}

void NodeServer::State::save_if_changed() {
  if (held_.begin_save()) writer_->put(print_job(service_.jobs.at(options_.place->job)));
}

void NodeServer::State::end_save(bool saved) {
  if (!saved) return stop();
  for (const auto& output : held_.end_save()) carry_out(output);
  save_if_changed();
}

void NodeServer::State::carry_out(const NodeServiceOutput& output) {
  if (const auto* line = std::get_if<membership::LogLine>(&output)) {
    write_log(line->level, line->text);
  } else if (const auto* refusal = std::get_if<membership::Refusal>(&output)) {
    listener_->refusals().note(refusal->who, refusal->reason, Clock::now());
  } else if (const auto* close = std::get_if<membership::Close>(&output)) {
    listener_->close(close->connection, close->reason);
  } else if (const auto* send = std::get_if<SendToNode>(&output)) {
    auto message = send->message;
    if (auto* view = std::get_if<JobView>(&message)) view->sent_at = wall_clock_milliseconds();
    listener_->send(send->connection, print(message));
  }
}

NodeServer::NodeServer(NodeServerOptions options) : state_(std::make_unique<State>(std::move(options))) {}
NodeServer::~NodeServer() = default;

int NodeServer::users() const { return state_->users(); }
bool NodeServer::serves() const { return state_->serves(); }
void NodeServer::stop() { state_->stop(); }

}  // namespace lockstep::cluster::elastic
