// An epoll loop over the store's connections, each a state machine: hello, TLS, proof, member or refused.
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/store/server_loop.h>
#include <lockstep/store/sockets.h>
#include <lockstep/world/host_addresses.h>

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace lockstep::store {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::uint64_t kWake = 0;  // ids of epoll events: kWake, then the listeners, then the peers
constexpr std::size_t kReadAtOnce = 64 << 10;
using Wait = net::TlsStream::Wait;
constexpr std::size_t kMostUnsent = 2 * kMostMessageBytes;
constexpr std::size_t kKeptToSend = 16 << 10;  // bytes of an empty buffer that are kept for the next answer
constexpr std::size_t kMostInVain = 4096;  // accepted bytes from a refused client; our own clients had fewer in transit
constexpr milliseconds kPauseWithoutDescriptors(200);

/// Thrown to close a connection. `what` is the reason for the log; empty: no log line.
class Unwelcome : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::string words_of(int error) { return std::generic_category().message(error); }

std::string name_of(const sockaddr_storage& address) {
  const bool is_v4 = address.ss_family == AF_INET;
  const auto port = is_v4 ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                          : reinterpret_cast<const sockaddr_in6&>(address).sin6_port;
  return host_and_port(address_text(reinterpret_cast<const sockaddr&>(address)), ntohs(port));
}

void watch(int epoll, int operation, int fd, std::uint64_t id, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (::epoll_ctl(epoll, operation, fd, &event) != 0) throw std::runtime_error(words_of(errno));
}

UniqueFd checked(int fd) {
  if (fd < 0) throw std::runtime_error(words_of(errno));
  return UniqueFd(fd);
}

}  // namespace

ServerLoop::ServerLoop(const StoreServerOptions& options, std::vector<UniqueFd> listeners)
    : options_(options),
      epoll_(checked(::epoll_create1(EPOLL_CLOEXEC))),
      wake_(checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))),
      listeners_(std::move(listeners)),
      next_id_(kWake + 1 + listeners_.size()) {
  watch(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), kWake, EPOLLIN);
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    watch(epoll_.get(), EPOLL_CTL_ADD, listeners_[i].get(), kWake + 1 + i, 0);
  }
}

void ServerLoop::stop() const { ::eventfd_write(wake_.get(), 1); }

void ServerLoop::close() {
  peers_.clear();
  listeners_.clear();
  refusals_.finish();
}

void ServerLoop::run() {
  std::array<epoll_event, 256> events{};
  while (true) {
    watch_listeners(!accepts_again_ && has_room());
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), poll_timeout());
    if (count < 0 && errno != EINTR) throw std::runtime_error(words_of(errno));
    for (int i = 0; i < count; ++i) {
      const auto& event = events[static_cast<std::size_t>(i)];
      const auto id = event.data.u64;
      if (id == kWake) return;
      if (id <= listeners_.size()) {
        accept_from(listeners_[id - kWake - 1].get());
      } else {
        serve(id, event.events);
      }
    }
    drop_broken();
    drop_overdue();
    refusals_.tick(Clock::now());
  }
}

// ---- accepting connections

void ServerLoop::watch_listeners(bool on) {
  if (on == listening_) return;
  listening_ = on;
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    watch(epoll_.get(), EPOLL_CTL_MOD, listeners_[i].get(), kWake + 1 + i,
          on ? static_cast<std::uint32_t>(EPOLLIN) : 0);
  }
}

/// Whether one more connection can be accepted.
bool ServerLoop::has_room() {
  if (strangers_.size() < options_.most_strangers) return true;
  return Clock::now() - peers_.at(*strangers_.begin()).came >= options_.shortest_stay;
}

void ServerLoop::accept_from(int listener) {
  while (has_room()) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    UniqueFd socket(::accept4(listener, reinterpret_cast<sockaddr*>(&address), &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        accepts_again_ = Clock::now() + kPauseWithoutDescriptors;
        refusals_.note("connections to the store", words_of(errno), Clock::now());
      }
      return;  // no connection is waiting, or a client closed it meanwhile: epoll reports further connections
    }
    welcome(std::move(socket), name_of(address));
  }
}

void ServerLoop::welcome(UniqueFd socket, std::string address) {
  if (strangers_.size() >= options_.most_strangers) {
    drop(*strangers_.begin(),
         fmt::format("it was the oldest of {} connections that had not completed the handshake", strangers_.size()));
  }
  const int no_delay = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &no_delay, sizeof no_delay);
  const Id id = next_id_++;
  watch(epoll_.get(), EPOLL_CTL_ADD, socket.get(), id, EPOLLIN);
  auto& peer = peers_[id];
  peer.socket = std::move(socket);
  peer.address = std::move(address);
  peer.came = Clock::now();
  strangers_.insert(id);
  set_deadline(id, peer, peer.came + options_.hello_limit);
}

// ---- receiving

void ServerLoop::serve(Id id, std::uint32_t events) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  Peer& peer = found->second;
  try {
    if ((events & EPOLLOUT) != 0) flush(peer, id);
    if (peer.stage == Stage::tls) advance_tls(peer, id);
    if (peer.stage != Stage::tls && (peer.stream || (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)) {
      Received received;
      do {
        received = receive(peer);
        handle_input(id, peer);
        // A client that connects only to test whether the port is open is not logged.
        if (received == Received::end) throw Unwelcome(peer.in.empty() ? "" : "it ended in the middle of a message");
        // Polling the socket does not show data that the TLS stream holds.
      } while (peer.stream && peer.stage != Stage::tls && received == Received::some);
    }
  } catch (const Unwelcome& why) {
    drop(id, why.what());
  } catch (const BadMessage& why) {
    drop(id, why.what());
  } catch (const Error& why) {
    if (peer.stage == Stage::member) {
      drop(id, why.kind() == ErrorKind::io ? "" : why.message());  // a process that is killed does not close TLS
    } else {
      refuse(peer, "", why.message());
    }
  }
  drop_broken();
}

/// Before the handshake is complete, reads no more bytes than the current message of the handshake has.
ServerLoop::Received ServerLoop::receive(Peer& peer) {
  std::array<char, kReadAtOnce> buffer;  // NOLINT: filled below
  std::size_t most = buffer.size();
  if (peer.stage == Stage::hello) most = kHelloBytes - peer.in.size();
  if (peer.stage == Stage::proof) most = kProofMessageBytes - peer.in.size();
  if (peer.stream && peer.stage != Stage::refused) {
    const auto moved = peer.stream->read(reinterpret_cast<std::byte*>(buffer.data()), most);
    peer.in.append(buffer.data(), moved.bytes);
    return moved.ended ? Received::end : moved.bytes > 0 ? Received::some : Received::nothing;
  }
  const auto count = ::recv(peer.socket.get(), buffer.data(), most, 0);
  if (count < 0) {
    if (errno == EAGAIN || errno == EINTR) return Received::nothing;
    throw Unwelcome("");  // the connection is lost
  }
  peer.in.append(buffer.data(), static_cast<std::size_t>(count));
  return count > 0 ? Received::some : Received::end;
}

/// Continues the TLS handshake. After it the client sends its greeting again, inside TLS.
void ServerLoop::advance_tls(Peer& peer, Id id) {
  const auto wait = peer.stream->handshake();
  watch_to_send(peer, id, wait == Wait::to_write);
  if (wait == Wait::nothing) peer.stage = Stage::hello;
}

void ServerLoop::handle_input(Id id, Peer& peer) {
  switch (peer.stage) {
    case Stage::hello:
      hear_hello(peer);
      if (peer.in.empty() && peer.stage == Stage::proof) {
        using Wants = Challenge::Wants;
        const bool secret = !options_.secret.empty();
        const bool tls = options_.tls && !peer.stream;
        if (!secret && !options_.tls && is_of_other_user(peer.socket.get())) {
          return refuse(peer, print_challenge({Wants::secret, peer.nonces.of_server}),
                        "it belongs to another user of this host, and there is no secret (LOCKSTEP_STORE_SECRET)");
        }
        send(peer, id,
             print_challenge({tls      ? Wants::tls
                              : secret ? Wants::secret
                                       : Wants::nothing,
                              peer.nonces.of_server}));
        if (tls) {
          peer.stage = Stage::tls;
          peer.stream = std::make_unique<net::TlsStream>(options_.tls, net::TlsStream::Side::server, peer.socket.get(),
                                                         net::TlsStream::kSmall);
        } else if (!secret) {
          become_member(id, peer);
        }
      }
      break;
    case Stage::proof:
      hear_proof(peer);
      if (peer.in.empty() && peer.stage == Stage::member) {
        send(peer, id, print_verdict(options_.secret, peer.nonces));
        become_member(id, peer);
      }
      break;
    case Stage::tls: break;  // nothing was read
    case Stage::member: hear_requests(id, peer); break;
    case Stage::refused:
      peer.heard_in_vain += std::exchange(peer.in, {}).size();
      if (peer.heard_in_vain > kMostInVain) throw Unwelcome("");
      break;
  }
}

void ServerLoop::hear_hello(Peer& peer) {
  if (!can_be_greeting(peer.in)) {
    if (peer.in.starts_with(kGreetingOfAnyVersion)) {
      return refuse(peer, kGreeting, "it uses another version of the store's protocol");
    }
    throw Unwelcome("it does not use the protocol of Lockstep's store");
  }
  if (peer.in.size() < kHelloBytes) return;
  auto nonce = parse_hello(peer.in);
  if (!nonce) throw Unwelcome("it does not use the protocol of Lockstep's store");
  peer.nonces = {std::move(*nonce), random_token()};
  peer.stage = Stage::proof;
  peer.in.clear();
}

void ServerLoop::hear_proof(Peer& peer) {
  if (peer.in.size() < kProofMessageBytes) return;
  if (!is_proof_of_client(peer.in, options_.secret, peer.nonces)) {
    return refuse(peer, print_verdict(std::nullopt, peer.nonces), "it does not have the secret of this job");
  }
  peer.stage = Stage::member;
  peer.in.clear();
}

void ServerLoop::become_member(Id id, Peer& peer) {
  peer.stage = Stage::member;
  strangers_.erase(id);
  set_deadline(id, peer, std::nullopt);
}

/// Sends the reason and waits until the client closes: closing a socket with unread input would discard the sent bytes
/// (RST).
void ServerLoop::refuse(Peer& peer, std::string_view last_words, const std::string& why) {
  note(peer, why);
  peer.stage = Stage::refused;
  peer.in.clear();
  if (peer.stream && !last_words.empty()) {
    peer.stream->write(reinterpret_cast<const std::byte*>(last_words.data()), last_words.size());
    peer.stream->end();
  } else if (!last_words.empty()) {
    [[maybe_unused]] const auto sent =
        ::send(peer.socket.get(), last_words.data(), last_words.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  ::shutdown(peer.socket.get(), SHUT_WR);
}

void ServerLoop::hear_requests(Id id, Peer& peer) {
  std::size_t read = 0;
  while (const auto body = first_body(std::string_view(peer.in).substr(read))) {
    read += bytes_of_message(*body);
    send_answers(values_.request(id, *body));
  }
  peer.in.erase(0, read);
  if (peer.in.empty()) {
    set_deadline(id, peer, std::nullopt);
  } else if (read > 0 || !peer.deadline) {
    set_deadline(id, peer, Clock::now() + options_.message_limit);
  }
}

// ---- sending

void ServerLoop::send_answers(std::vector<Answer> answers) {
  for (const auto& answer : answers) {
    const auto found = peers_.find(answer.connection);
    if (found == peers_.end()) continue;
    try {
      send(found->second, found->first, answer.message);
    } catch (const Unwelcome& why) {
      broken_.emplace_back(found->first, why.what());
    }
  }
}

void ServerLoop::send(Peer& peer, Id id, std::string_view bytes) {
  peer.out += bytes;
  if (peer.out.size() > kMostUnsent) throw Unwelcome("it does not read its answers");
  if (!peer.waits_to_send) flush(peer, id);
}

void ServerLoop::flush(Peer& peer, Id id) {
  std::size_t sent = 0;
  bool stream_waits = false;
  while (peer.stream && peer.stage != Stage::tls && sent < peer.out.size()) {
    const auto moved =
        peer.stream->write(reinterpret_cast<const std::byte*>(peer.out.data()) + sent, peer.out.size() - sent);
    sent += moved.bytes;
    if (moved.wait != Wait::nothing) break;
  }
  if (peer.stream) stream_waits = peer.stream->flush() == Wait::to_write;
  while (!peer.stream && sent < peer.out.size()) {
    const auto count =
        ::send(peer.socket.get(), peer.out.data() + sent, peer.out.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count < 0) throw Unwelcome("");  // the connection is lost
    sent += static_cast<std::size_t>(count);
  }
  peer.out.erase(0, sent);
  // Thousands of ranks read the list of all ranks once, which has hundreds of kilobytes.
  if (peer.out.empty() && peer.out.capacity() > kKeptToSend) peer.out.shrink_to_fit();
  watch_to_send(peer, id, !peer.out.empty() || stream_waits);
}

void ServerLoop::watch_to_send(Peer& peer, Id id, bool more) {
  if (std::exchange(peer.waits_to_send, more) == more) return;
  watch(epoll_.get(), EPOLL_CTL_MOD, peer.socket.get(), id,
        more ? static_cast<std::uint32_t>(EPOLLIN) | EPOLLOUT : static_cast<std::uint32_t>(EPOLLIN));
}

// ---- closing connections

void ServerLoop::set_deadline(Id id, Peer& peer, std::optional<Time> deadline) {
  if (peer.deadline) deadlines_.erase({*peer.deadline, id});
  peer.deadline = deadline;
  if (deadline) deadlines_.emplace(*deadline, id);
}

void ServerLoop::note(const Peer& peer, const std::string& why) {
  refusals_.note(fmt::format("a connection to the store from {}", peer.address), why, Clock::now());
}

void ServerLoop::drop(Id id, const std::string& why) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  if (!why.empty() && found->second.stage != Stage::refused) note(found->second, why);
  set_deadline(id, found->second, std::nullopt);
  strangers_.erase(id);
  values_.forget(id);
  peers_.erase(found);
}

void ServerLoop::drop_broken() {
  for (const auto& [id, why] : std::exchange(broken_, {})) drop(id, why);
}

void ServerLoop::drop_overdue() {
  const auto now = Clock::now();
  if (accepts_again_ && *accepts_again_ <= now) accepts_again_.reset();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto id = deadlines_.begin()->second;
    const bool member = peers_.at(id).stage == Stage::member;
    drop(id, member
                 ? fmt::format("the rest of a message did not arrive within {} s", options_.message_limit.count() / 1e3)
                 : fmt::format("it did not complete the handshake within {} s", options_.hello_limit.count() / 1e3));
  }
}

int ServerLoop::poll_timeout() const {
  std::optional<Time> next = accepts_again_;
  const auto sooner = [&](Time time) { next = next ? std::min(*next, time) : time; };
  if (!deadlines_.empty()) sooner(deadlines_.begin()->first);
  if (!listening_ && !strangers_.empty()) sooner(peers_.at(*strangers_.begin()).came + options_.shortest_stay);
  if (!next) return -1;
  const auto left = std::chrono::ceil<milliseconds>(*next - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

}  // namespace lockstep::store
