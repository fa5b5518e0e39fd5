#include <lockstep/base/error.h>
#include <lockstep/base/secret.h>
#include <lockstep/store/client_handshake.h>
#include <lockstep/store/handshake.h>
#include <lockstep/store/socket_wait.h>
#include <lockstep/world/await_listener.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

namespace lockstep::store {
namespace {

using std::chrono::milliseconds;

constexpr auto kPlace = "connect";
constexpr std::string_view kMend =
    "give all ranks and launchers of a job the same secret (LOCKSTEP_STORE_SECRET, or the scheduler's), or none";

/// Bytes of another program as one printable line.
std::string printable(std::string_view bytes) {
  std::string text(bytes);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

/// The handshake with one listener.
class Talk {
 public:
  Talk(int socket, std::string where, Time deadline) : socket_(socket), where_(std::move(where)), deadline_(deadline) {}

  void say(std::string_view text) const {
    const auto sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);  // fits into any socket's buffer
    if (sent < 0) fail_by(errno);
  }

  /// Receives up to `bytes` bytes; fewer when the other side closes the connection before that.
  std::string hear(std::size_t bytes) const {
    std::string heard;
    while (heard.size() < bytes) {
      if (!wait_for(socket_, POLLIN, deadline_)) {
        throw Unreachable(
            "who listens there says nothing: it is no store, or the process that holds the store (rank 0 or a "
            "launcher) hangs");
      }
      std::array<char, 256> buffer{};
      const auto count = ::recv(socket_, buffer.data(), std::min(buffer.size(), bytes - heard.size()), 0);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (count < 0 && heard.empty()) fail_by(errno);
      if (count <= 0) break;
      heard.append(buffer.data(), static_cast<std::size_t>(count));
    }
    if (heard.empty()) fail_by(ECONNRESET);
    return heard;
  }

  const std::string& where() const { return where_; }

 private:
  [[noreturn]] static void fail_by(int error) {
    throw NoWord(
        "who listens there ends the connection without a word: it is no store of Lockstep, or has just ended (" +
        std::generic_category().message(error) + ")");
  }

  int socket_;
  std::string where_;
  Time deadline_;
};

[[noreturn]] void fail_for(const Talk& talk, const std::string& answer) {
  if (answer.starts_with(kGreetingOfAnyVersion)) {
    fail(ErrorKind::mismatch, kPlace,
         "the store at {} speaks another version of the protocol ({}) than this process ({}); start all ranks and "
         "launchers with the same version of Lockstep",
         talk.where(), printable(answer.substr(0, answer.find('\r'))), kGreeting.substr(0, kGreeting.size() - 2));
  }
  fail(ErrorKind::io, kPlace,
       "another program than a store of Lockstep listens at {} (it answers '{}'); stop that, or choose another port "
       "with MASTER_PORT (--rdzv_endpoint for launchers)",
       talk.where(), printable(answer.substr(0, 40)));
}

/// Reads the greeting before the rest: it tells whether the other side speaks this version.
Challenge hear_challenge(const Talk& talk) {
  auto answer = talk.hear(kGreeting.size());
  if (answer != kGreeting) fail_for(talk, answer);
  answer += talk.hear(kChallengeBytes - kGreeting.size());
  const auto challenge = parse_challenge(answer);
  if (!challenge) fail_for(talk, answer);
  return *challenge;
}

void prove_secret(const Talk& talk, const std::string& secret, const Nonces& nonces) {
  talk.say(print_proof_of_client(secret, nonces));
  switch (read_verdict(talk.hear(kVerdictBytes), secret, nonces)) {
    case Verdict::welcome: return;
    case Verdict::refused:
      fail(ErrorKind::environment, kPlace, "the store at {} refuses this process: its secret is another one; {}",
           talk.where(), kMend);
    case Verdict::other_secret:
      fail(ErrorKind::environment, kPlace, "who listens at {} does not know the secret of this job; {}", talk.where(),
           kMend);
    case Verdict::nonsense: break;
  }
  throw Unreachable("who listens there ends the connection in the middle of its greeting");
}

}  // namespace

UniqueFd connect_to_store(const std::string& host, std::uint16_t port, const std::string& secret, Time deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  auto connected = connect_once(host, port, std::max(left, milliseconds(1)));
  if (!connected.socket) throw Unreachable(connected.reason);
  const int no_delay = 1;
  ::setsockopt(connected.socket.get(), IPPROTO_TCP, TCP_NODELAY, &no_delay, sizeof no_delay);
  const Talk talk(connected.socket.get(), fmt::format("{}:{}", host, port), deadline);
  const auto nonce = random_token();
  talk.say(print_hello(nonce));
  const auto challenge = hear_challenge(talk);
  if (challenge.wants_secret && secret.empty()) {
    fail(ErrorKind::environment, kPlace, "the store at {} wants the secret of its job, and this process has none; {}",
         talk.where(), kMend);
  }
  if (!challenge.wants_secret && !secret.empty()) {
    fail(ErrorKind::environment, kPlace, "this process has a secret, and the store at {} asks for none; {}",
         talk.where(), kMend);
  }
  if (challenge.wants_secret) prove_secret(talk, secret, {nonce, challenge.nonce});
  return std::move(connected.socket);
}

}  // namespace lockstep::store
