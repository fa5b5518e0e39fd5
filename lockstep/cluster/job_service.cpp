#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/parse.h>
#include <lockstep/base/secret.h>
#include <lockstep/cluster/job_service.h>
#include <lockstep/scheduler/server.h>

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>
#include <utility>

namespace lockstep::cluster {
namespace {

/// For a replacement to come, which its launcher starts at once. When none comes, memory does not help, and all ranks
/// end with an error.
constexpr auto kReplacement = std::chrono::minutes(2);

std::chrono::milliseconds seconds_of(const char* variable, std::chrono::milliseconds otherwise) {
  const auto text = find(current_environment(), variable);
  const auto value = text ? parse_number(*text) : std::nullopt;
  if (!text) return otherwise;
  if (!value || *value < 0.1 || *value > 86400) {
    fail(ErrorKind::environment, "launch", "{}=\"{}\" must be a number of seconds, from 0.1 to 86400", variable, *text);
  }
  return std::chrono::milliseconds(std::llround(*value * 1000));
}

}  // namespace

class JobService::State {
 public:
  State(const std::string& host, int ranks, UniqueFd events) : events_(std::move(events)) {
    address_ = {host, 0, random_token()};
    options_.host = host;
    options_.workers = ranks;
    options_.recovery = true;
    options_.programs_follow = true;
    options_.limits.absence = kReplacement;
    options_.limits.silence = seconds_of("LOCKSTEP_NODE_TIMEOUT_S", options_.limits.silence);
    options_.limits.hang = seconds_of("LOCKSTEP_HANG_TIMEOUT_S", options_.limits.hang);
    options_.secret = address_.secret;
    options_.on_lost = [this](std::int64_t process) { tell(fmt::format("{}{}", kLost, process)); };
    options_.on_ended = [this](const scheduler::Ending& ending) {
      if (ending.ok) tell(std::string(kCompleted));
    };
    server_.emplace(options_);
    address_.port = server_->port();
    thread_ = std::thread([this] { serve(); });
  }

  ~State() {
    server_->stop();
    thread_.join();
  }

  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const ServiceAddress& address() const { return address_; }

 private:
  void serve() noexcept {
    try {
      server_->run();
    } catch (const std::exception& error) {
      log_error("the launcher's job service ended; lost ranks are not replaced any more: {}", error.what());
    }
  }

  // Lines are shorter than what a pipe takes in one piece. A launcher that is gone needs none.
  void tell(const std::string& line) noexcept {
    const std::string text = line + "\n";
    while (::write(events_.get(), text.data(), text.size()) < 0 && errno == EINTR) {
    }
  }

  const UniqueFd events_;
  ServiceAddress address_;
  scheduler::ServerOptions options_;
  std::optional<scheduler::Server> server_;
  std::thread thread_;
};

JobService::JobService(const std::string& host, int ranks, UniqueFd events)
    : state_(std::make_unique<State>(host, ranks, std::move(events))) {}

JobService::~JobService() = default;

const ServiceAddress& JobService::address() const { return state_->address(); }

}  // namespace lockstep::cluster
