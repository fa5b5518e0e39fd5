// The probe server of a host, and the client that connects to those of other hosts.
#include <lockstep/base/error.h>
#include <lockstep/base/json.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/doctor/links.h>

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

namespace lockstep::doctor {
namespace {

constexpr int kBacklog = 1024;
constexpr int kLookUp = 50;  // milliseconds between checks of the stop token
constexpr std::size_t kAtOnce = 256;
constexpr std::size_t kLongestAnswer = 4096;

// A numeric address and port as the kernel's sockaddr.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  int family() const { return storage.ss_family; }
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// nullopt when `address` is not numeric, such as "10.0.0.1" or "::1".
std::optional<SocketAddress> numeric_address(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &raw) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(raw, &::freeaddrinfo);
  SocketAddress found;
  std::memcpy(&found.storage, list->ai_addr, list->ai_addrlen);
  found.length = list->ai_addrlen;
  return found;
}

// The port that a socket is bound to.
std::uint16_t port_of(const UniqueFd& socket) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) return 0;
  // The port has the same offset in both address families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
}

[[noreturn]] void cannot_listen(const std::string& address, const std::string& why) {
  fail(ErrorKind::io, "doctor", "cannot listen on {}: {}", address, why);
}

UniqueFd listen_on(const std::string& address) {
  const auto where = numeric_address(address, 0);
  if (!where) cannot_listen(address, "it is not a numeric address");
  UniqueFd socket(::socket(where->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket || ::bind(socket.get(), where->raw(), where->length) != 0 || ::listen(socket.get(), kBacklog) != 0) {
    cannot_listen(address, std::generic_category().message(errno));
  }
  return socket;
}

// The Unix time in seconds.
double clock_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

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

namespace {

std::string words_for(int error) { return std::generic_category().message(error); }

bool wait_for(const UniqueFd& socket, short event, const WaitLimit& wait_limit) {
  pollfd ready{socket.get(), event, 0};
  while (::poll(&ready, 1, static_cast<int>(wait_limit.slice().count())) <= 0) {
    if (wait_limit.over()) return false;
  }
  return true;
}

// Connects the socket. Returns an empty text on success, otherwise the reason.
std::string connect_to(const UniqueFd& socket, const SocketAddress& where, const WaitLimit& wait_limit) {
  if (::connect(socket.get(), where.raw(), where.length) == 0) return "";
  if (errno != EINPROGRESS) return words_for(errno);
  if (!wait_for(socket, POLLOUT, wait_limit)) {
    return fmt::format("{}: packets are dropped on the way", kNoAnswer);
  }
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  return error == 0 ? "" : words_for(error);
}

std::string read_line(const UniqueFd& socket, const WaitLimit& wait_limit) {
  std::string text;
  std::array<char, 512> buffer{};
  while (text.find('\n') == std::string::npos && text.size() < kLongestAnswer && wait_for(socket, POLLIN, wait_limit)) {
    const auto bytes = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (bytes <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(bytes));
  }
  return text;
}

// Checks that the expected rank answered, and computes the clock difference.
void judge_answer(Link& link, const Facts& to, const std::string& text, double before, double after) {
  const auto answer = decode_probe_answer(text);
  if (!answer) {
    link.problem = text.empty() ? "it connected, but got no answer" : "another program answered there";
    return;
  }
  if (answer->identity != to.identity || answer->rank != to.rank) {
    link.problem = fmt::format("rank {} of another host answered there", answer->rank);
    return;
  }
  link.clock_ahead = answer->clock - (before + after) / 2;
  link.clock_uncertainty = (after - before) / 2;
}

}  // namespace

Link try_link(int from, const Facts& to, const WaitLimit& wait_limit) {
  Link link;
  link.from = from;
  link.to = to.rank;
  link.address = host_and_port(to.address, to.probe_server);
  const auto where = numeric_address(to.address, to.probe_server);
  if (!where || to.probe_server == 0) {
    link.problem = "it offers no address";
    return link;
  }
  const UniqueFd socket(::socket(where->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // The other side reads its clock between this time and the time after the answer.
  const double before = clock_now();
  link.problem = socket ? connect_to(socket, *where, wait_limit) : words_for(errno);
  if (!link.problem.empty()) return link;
  const auto text = read_line(socket, wait_limit);
  judge_answer(link, to, text, before, clock_now());
  return link;
}

std::vector<Link> try_links(int from, const std::vector<const Facts*>& targets, std::chrono::milliseconds limit,
                            const std::stop_token& stop) {
  std::vector<Link> links;
  for (std::size_t begin = 0; begin < targets.size(); begin += kAtOnce) {
    std::vector<std::future<Link>> batch;
    for (std::size_t i = begin; i < std::min(begin + kAtOnce, targets.size()); ++i) {
      batch.push_back(
          std::async(std::launch::async, [&, i] { return try_link(from, *targets[i], WaitLimit(limit, stop)); }));
    }
    for (auto& one : batch) links.push_back(one.get());
  }
  return links;
}

}  // namespace lockstep::doctor
