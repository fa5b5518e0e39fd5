// The scheduler: the service as a state machine, its port, and the place of its state.
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/membership/service/listener.h>
#include <lockstep/membership/service/server.h>
#include <lockstep/membership/service/state_writer.h>
#include <lockstep/membership/service/status.h>

#include <memory>

namespace lockstep::membership {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kSave = std::chrono::seconds(2);
constexpr auto kLook = std::chrono::seconds(1);

ListenerOptions listener_options(const ServerOptions& options) {
  ListenerOptions listener;
  listener.host = options.host;
  listener.port = options.port;
  listener.target = "/v1/worker";
  listener.name = "a scheduler of Lockstep";
  listener.cannot_listen =
      "MS_SCHED_HOST must be an address of this machine, and MS_SCHED_PORT a port that no other process uses";
  listener.tls_setting = "enable_ssl";
  listener.tls = options.tls;
  listener.check_of_certificates = options.check_of_certificates;
  listener.most_connections = options.most_connections;
  listener.longest_message = kLongestMessage;
  listener.step = options.step;
  listener.idle = 2 * options.limits.heartbeat_limit;  // the service reports silent workers earlier
  return listener;
}

// Continues with the saved job, if there is one.
ServiceState begin(const ServerOptions& options, Time now) {
  const auto saved = options.state ? options.state->load() : std::nullopt;
  try {
    auto state = begin_service(options, saved, now, random_token);
    state.options.watched = static_cast<bool>(options.on_look);
    if (!state.membership.members.empty()) {
      log_info("going on with job {} from {}: {} workers, generation {}", state.membership.job, options.state->name,
               state.membership.members.size(), state.membership.generation);
    }
    return state;
  } catch (const Error& error) {
    fail(ErrorKind::data, "scheduler",
         "the state in '{}' cannot be used: {}; remove it, or set MS_RECOVERY_PATH to another place",
         options.state->name, error.message());
  }
}

}  // namespace

class Server::State {
 public:
  explicit State(ServerOptions options)
      : options_(std::move(options)),
        service_(begin(options_, Clock::now())),
        listener_(listener_options(options_),
                  {.opened =
                       [this](auto id, const auto& address) {
                         step(Opened{id, address});
                       },
                   .received =
                       [this](auto id, const auto& text) {
                         step(Received{id, parse_from_worker(text)});
                       },
                   .closed =
                       [this](auto id, const auto& reason, bool by_us) {
                         step(Closed{id, reason, by_us});
                       },
                   .tick =
                       [this] {
                         step(Tick{});
                         look_again();
                       },
                   .status = [this] { return status(); },
                   .has_registered = [this](auto id) { return membership::has_registered(service_, id); },
                   .is_admitted = [this](auto id) { return membership::is_admitted(service_, id); }}) {
    if (options_.state) writer_.emplace(*options_.state);
    carry_out(Save{});
  }

  std::uint16_t port() const { return listener_.port(); }
  void stop() { listener_.stop(); }

  RunEnd run(const std::vector<int>& signals) {
    RunEnd end;
    end.signal = listener_.run(signals);
    if (ending_) end.ending = *ending_;
    return end;
  }

 private:
  void step(const ServiceInput& input);
  void carry_out(const Send& send) { listener_.send(send.connection, print(send.message)); }
  void carry_out(const Close& close) { listener_.close(close.connection, close.reason); }
  void carry_out(const Save& save);
  void carry_out(const LogLine& line) { write_log(line.level, line.text); }
  void carry_out(const Refusal& refusal) { listener_.refusals().note(refusal.who, refusal.reason, Clock::now()); }
  void carry_out(const ProcessLost& lost) {
    if (options_.on_lost) options_.on_lost(lost.rank, lost.pid);
  }
  void carry_out(const ProcessBack& back) {
    if (options_.on_back) options_.on_back(back.rank, back.pid);
  }
  void carry_out(const RanksLost& lost) {
    if (options_.on_lost_ranks) options_.on_lost_ranks(lost.ranks);
  }
  void carry_out(const JobEnded& job);
  void look() {
    if (options_.on_look) options_.on_look(service_.membership, service_.decisions);
  }
  void look_again() {
    if (Clock::now() - looked_ < kLook) return;
    looked_ = Clock::now();
    look();
  }
  std::string status() const;

  const ServerOptions options_;
  ServiceState service_;
  std::optional<StateWriter> writer_;
  std::optional<Ending> ending_;
  Clock::time_point looked_;
  Listener listener_;
};

void Server::State::step(const ServiceInput& input) {
  for (const auto& output : membership::step(service_, input, Clock::now(), random_token)) {
    std::visit([this](const auto& each) { carry_out(each); }, output);
  }
}

void Server::State::carry_out(const Save& save) {
  if (!writer_) return;
  writer_->put(print_state(service_.membership));
  if (save.first) writer_->wait_for(kSave);
}

// Where programs follow each other, the port stays open, because workers of the next job may already be connecting.
// Connections of the previous job are closing.
void Server::State::carry_out(const JobEnded& job) {
  look();
  if (!options_.programs_follow) {
    ending_ = job.ending;
    return listener_.finish();
  }
  if (options_.on_ended) options_.on_ended(job.ending);
  listener_.refusals().finish();
  service_ = begin(options_, Clock::now());
  carry_out(Save{});
}

std::string Server::State::status() const {
  return status_json(
      service_.membership,
      {options_.version, options_.tls != nullptr, options_.state.has_value(), service_.started, service_.decisions},
      Clock::now());
}

Server::Server(ServerOptions options) : state_(std::make_shared<State>(std::move(options))) {}
Server::~Server() = default;
std::uint16_t Server::port() const { return state_->port(); }
RunEnd Server::run(const std::vector<int>& signals) { return state_->run(signals); }
void Server::stop() { state_->stop(); }

}  // namespace lockstep::membership
