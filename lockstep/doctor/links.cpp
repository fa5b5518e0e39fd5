#include <lockstep/doctor/links.h>
#include <lockstep/doctor/numeric_address.h>
#include <lockstep/doctor/probe_server.h>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <future>
#include <system_error>

namespace lockstep::doctor {
namespace {

constexpr std::size_t kAtOnce = 256;
constexpr std::size_t kLongestAnswer = 4096;

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
    return fmt::format("{}: something on the way drops the packets", kNoAnswer);
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

// Checks that the right rank answered, and computes the clock difference.
void judge_answer(Link& link, const Facts& to, const std::string& text, double before, double after) {
  const auto answer = decode_probe_answer(text);
  if (!answer) {
    link.problem = text.empty() ? "it connected, but nothing came back" : "another program answered there";
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
  link.address = fmt::format("{}:{}", to.address, to.probe_server);
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
