// Greeting, TLS if required, then proofs of the secret or the check of the user, until a store accepts a client.
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/base/text.h>
#include <lockstep/store/client_handshake.h>
#include <lockstep/store/protocol.h>
#include <lockstep/store/sockets.h>
#include <lockstep/world/await_listener.h>
#include <lockstep/world/host_addresses.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

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

constexpr std::string_view kEncryptAlike =
    "set LOCKSTEP_ENCRYPT=1 for all ranks and launchers of the job (or parallel.encrypt, where no launcher holds the "
    "store), or for none";

bool leads_to_this_host(int socket) {
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  return ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &length) == 0 &&
         is_loopback_address(address_text(reinterpret_cast<const sockaddr&>(peer)));
}

/// The handshake with one listener.
class Talk {
 public:
  Talk(int socket, std::string where, Time deadline) : socket_(socket), where_(std::move(where)), deadline_(deadline) {}

  /// Starts TLS: all later messages are encrypted.
  void begin_tls(const std::shared_ptr<const net::PeerTls>& tls) {
    stream_ = std::make_unique<net::TlsStream>(tls, net::TlsStream::Side::client, socket_, net::TlsStream::kSmall);
    try {
      net::await_handshake(*stream_, socket_, deadline_);
    } catch (const Error& error) {
      fail_for(error);
    }
  }

  std::unique_ptr<net::TlsStream> take_stream() { return std::move(stream_); }

  void say(std::string_view text) {
    if (stream_) {
      stream_->write(reinterpret_cast<const std::byte*>(text.data()), text.size());
      stream_->flush();
      return;
    }
    const auto sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);  // fits into any socket's buffer
    if (sent < 0) fail_by(errno);
  }

  /// Receives up to `bytes` bytes; fewer when the other side closes the connection before that.
  std::string hear(std::size_t bytes) {
    std::string heard;
    while (heard.size() < bytes) {
      if (stream_ && hear_inside(heard, bytes)) continue;
      if (!wait_for(socket_, POLLIN, deadline_)) {
        throw Unreachable(
            "the process that listens there sends nothing: it is not a store, or the process that holds the store "
            "(rank 0 or a launcher) hangs");
      }
      if (stream_) continue;
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
  bool is_encrypted() const { return stream_ != nullptr; }

 private:
  /// False when there is nothing to read now.
  bool hear_inside(std::string& heard, std::size_t bytes) {
    std::array<char, 256> buffer{};
    const auto most = std::min(buffer.size(), bytes - heard.size());
    net::TlsStream::Moved moved;
    try {
      moved = stream_->read(reinterpret_cast<std::byte*>(buffer.data()), most);
    } catch (const Error& error) {
      fail_for(error);
    }
    if (moved.ended) fail_by(ECONNRESET);
    heard.append(buffer.data(), moved.bytes);
    return moved.bytes > 0;
  }

  /// A certificate that one side refuses is no reason to retry.
  [[noreturn]] void fail_for(const Error& error) const {
    if (error.kind() == ErrorKind::environment) {
      fail(ErrorKind::environment, kPlace, "the TLS handshake of the store at {} with this process failed: {}", where_,
           error.message());
    }
    throw Unreachable("the TLS handshake with the process that listens there failed: " + error.message());
  }

  [[noreturn]] static void fail_by(int error) {
    throw NoWord(
        "the process that listens there sent nothing and closed the connection: it is not a store of Lockstep, or has "
        "just ended (" +
        std::generic_category().message(error) + ")");
  }

  int socket_;
  std::string where_;
  Time deadline_;
  std::unique_ptr<net::TlsStream> stream_{};
};

[[noreturn]] void fail_for(const Talk& talk, const std::string& answer) {
  if (answer.starts_with(kGreetingOfAnyVersion)) {
    fail(ErrorKind::mismatch, kPlace,
         "the store at {} uses another version of the protocol ({}) than this process ({}); start all ranks and "
         "launchers with the same version of Lockstep",
         talk.where(), cut_text(answer.substr(0, answer.find('\r'))), kGreeting.substr(0, kGreeting.size() - 2));
  }
  fail(ErrorKind::io, kPlace,
       "the program that listens at {} is not a store of Lockstep (it answers '{}'); stop it, or choose another port "
       "with MASTER_PORT (--rdzv_endpoint for launchers)",
       talk.where(), cut_text(answer, 40));
}

/// Reads the greeting before the rest: it shows whether the other side uses this version.
Challenge hear_challenge(Talk& talk) {
  auto answer = talk.hear(kGreeting.size());
  if (answer != kGreeting) fail_for(talk, answer);
  answer += talk.hear(kChallengeBytes - kGreeting.size());
  const auto challenge = parse_challenge(answer);
  if (!challenge) fail_for(talk, answer);
  return *challenge;
}

void prove_secret(Talk& talk, const std::string& secret, const Nonces& nonces) {
  talk.say(print_proof_of_client(secret, nonces));
  switch (read_verdict(talk.hear(kVerdictBytes), secret, nonces)) {
    case Verdict::welcome: return;
    case Verdict::refused:
      fail(ErrorKind::environment, kPlace, "the store at {} refuses this process, which has another secret; {}",
           talk.where(), kMend);
    case Verdict::other_secret:
      fail(ErrorKind::environment, kPlace, "the process that listens at {} does not have the secret of this job; {}",
           talk.where(), kMend);
    case Verdict::nonsense: break;
  }
  throw Unreachable("the process that listens there closed the connection in the middle of its greeting");
}

/// Accepts the user without a secret. Called after the other side has answered: until then no process has its end open.
void require_same_user(const Talk& talk, int socket) {
  if (!is_of_other_user(socket)) return;
  const auto user = find_peer_user(socket);
  if (!user) throw Unreachable("the process that listens there has just ended");
  fail(ErrorKind::environment, kPlace,
       "the store at {} belongs to user {}, and this process to user {}: between users of one host both sides need a "
       "secret, the same LOCKSTEP_STORE_SECRET",
       talk.where(), *user, ::geteuid());
}

/// Exchanges the nonce and the store's challenge; inside TLS when both sides require TLS.
std::pair<Challenge, std::string> greet(Talk& talk, const Credentials& credentials, int socket) {
  using Wants = Challenge::Wants;
  for (;;) {
    auto nonce = random_token();
    talk.say(print_hello(nonce));
    auto challenge = hear_challenge(talk);
    if (challenge.wants == Wants::tls && talk.is_encrypted()) fail_for(talk, std::string(kGreeting));
    if (challenge.wants == Wants::tls && !credentials.tls) {
      fail(ErrorKind::environment, kPlace, "the store at {} encrypts, and this process does not; {}", talk.where(),
           kEncryptAlike);
    }
    if (challenge.wants == Wants::tls) {
      talk.begin_tls(credentials.tls);
      continue;
    }
    if (credentials.tls && !talk.is_encrypted() && !leads_to_this_host(socket)) {
      fail(ErrorKind::environment, kPlace, "this process encrypts, and the store at {} does not; {}", talk.where(),
           kEncryptAlike);
    }
    return {std::move(challenge), std::move(nonce)};
  }
}

}  // namespace

bool wait_for(int socket, short events, std::optional<Time> deadline) {
  while (true) {
    constexpr milliseconds kLongest(60'000);
    const auto left =
        deadline ? std::chrono::ceil<milliseconds>(*deadline - std::chrono::steady_clock::now()) : kLongest;
    pollfd ready{socket, events, 0};
    const int found = ::poll(&ready, 1, static_cast<int>(std::clamp(left, milliseconds(0), kLongest).count()));
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) return true;  // the next call on the socket reports the error
    if (deadline && left <= milliseconds(0)) return false;
  }
}

StoreConnection connect_to_store(const std::string& host, std::uint16_t port, const Credentials& credentials,
                                 Time deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  auto connected = connect_once(host, port, std::max(left, milliseconds(1)));
  if (!connected.socket && connected.refused) throw NobodyListens(connected.reason);
  if (!connected.socket) throw Unreachable(connected.reason);
  const int no_delay = 1;
  ::setsockopt(connected.socket.get(), IPPROTO_TCP, TCP_NODELAY, &no_delay, sizeof no_delay);
  Talk talk(connected.socket.get(), host_and_port(host, port), deadline);
  const auto [challenge, nonce] = greet(talk, credentials, connected.socket.get());
  const bool wants_secret = challenge.wants == Challenge::Wants::secret;
  if (credentials.secret.empty() && !talk.is_encrypted()) require_same_user(talk, connected.socket.get());
  if (wants_secret && credentials.secret.empty()) {
    fail(ErrorKind::environment, kPlace,
         "the store at {} requires the secret of its job, and this process has none; {}", talk.where(), kMend);
  }
  if (!wants_secret && !credentials.secret.empty()) {
    fail(ErrorKind::environment, kPlace, "this process has a secret, and the store at {} requires none; {}",
         talk.where(), kMend);
  }
  if (wants_secret) prove_secret(talk, credentials.secret, {nonce, challenge.nonce});
  return {std::move(connected.socket), talk.take_stream()};
}

}  // namespace lockstep::store
