#include <lockstep/base/error.h>
#include <lockstep/base/json_integer.h>
#include <lockstep/doctor/numeric_address.h>
#include <lockstep/doctor/probe_server.h>

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

namespace lockstep::doctor {
namespace {

constexpr int kBacklog = 1024;
constexpr int kLookUp = 50;  // milliseconds between checks of the stop token

[[noreturn]] void cannot_listen(const std::string& address, const std::string& why) {
  fail(ErrorKind::io, "doctor", "cannot listen on {}: {}", address, why);
}

UniqueFd listen_on(const std::string& address) {
  const auto where = numeric_address(address, 0);
  if (!where) cannot_listen(address, "it is no numeric address");
  UniqueFd socket(::socket(where->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket || ::bind(socket.get(), where->raw(), where->length) != 0 || ::listen(socket.get(), kBacklog) != 0) {
    cannot_listen(address, std::generic_category().message(errno));
  }
  return socket;
}

}  // namespace

double clock_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string encode(const ProbeAnswer& answer) {
  const nlohmann::json json = {{"rank", answer.rank}, {"identity", answer.identity}, {"clock", answer.clock}};
  return json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
}

std::optional<ProbeAnswer> decode_probe_answer(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    return ProbeAnswer{integer_of<int>(json.at("rank")), json.at("identity").get<std::string>(),
                       json.at("clock").get<double>()};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

ProbeServer::ProbeServer(const std::string& address, int rank, std::string identity)
    : rank_(rank), identity_(std::move(identity)), listener_(listen_on(address)), port_(port_of(listener_)) {
  thread_ = std::jthread([this](const std::stop_token& stop) { answer_all(stop); });
}

ProbeServer::~ProbeServer() = default;

void ProbeServer::answer_all(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    pollfd ready{listener_.get(), POLLIN, 0};
    if (::poll(&ready, 1, kLookUp) <= 0) continue;
    const UniqueFd visitor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!visitor) continue;
    // Shorter than the send buffer of a new connection, so that send does not block.
    const auto words = encode(ProbeAnswer{rank_, identity_, clock_now()});
    (void)::send(visitor.get(), words.data(), words.size(), MSG_NOSIGNAL);
  }
}

}  // namespace lockstep::doctor
