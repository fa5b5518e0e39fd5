// The poll loop that connects all pairs of ranks. Order: addresses, attempts, accepts, handshakes, checks.
#include <lockstep/comm/tcp/links.h>

#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/base/refusal_log.h>
#include <lockstep/comm/meet/addresses.h>
#include <lockstep/comm/meet/stores.h>
#include <lockstep/comm/tcp/stream.h>

#include <fmt/format.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <list>
#include <utility>

namespace lockstep::detail::tcp {
namespace {

using Clock = std::chrono::steady_clock;
using Wait = Stream::Wait;
using Side = Stream::Side;
using std::chrono::milliseconds;

constexpr milliseconds kHandshakeTime = std::chrono::seconds(10);
constexpr std::size_t kMostUnknownPeers = 128;
constexpr milliseconds kNextAttempt(200);

// The pause between two requests to the store; it grows with the number of ranks, which all send requests.
constexpr milliseconds kFirstPause(1);
milliseconds longest_pause(int ranks) { return std::max(milliseconds(50), milliseconds(ranks / 2)); }
milliseconds pause_between_checks(int ranks) { return std::max(milliseconds(100), milliseconds(ranks)); }

std::string address_key(int rank) { return fmt::format("tcp/address/{}", rank); }

std::string own_host(const BackendContext& context) {
  if (const auto named = named_interface_address(current_environment())) return *named;
  if (context.one_host) return "127.0.0.1";
  return context.bind_address.empty() ? outward_address() : context.bind_address;
}

class Rendezvous {
 public:
  explicit Rendezvous(const BackendContext& context)
      : context_(context),
        connections_(static_cast<std::size_t>(context.size)),
        attempts_(static_cast<std::size_t>(context.rank)),
        deadline_(Clock::now() + context.start_timeout) {
    for (int rank = 0; rank < context.size; ++rank) {
      if (rank != context.rank) others_.push_back(rank);
    }
  }

  std::vector<Connection> run() {
    listen();
    while (met_ < others_.size()) {
      look_for_addresses();
      begin_attempts();
      wait();
      accept();
      for (auto handshake = handshakes_.begin(); handshake != handshakes_.end();)
        handshake = serve(*handshake) ? std::next(handshake) : handshakes_.erase(handshake);
      check();
    }
    refusals_.finish();
    return std::move(connections_);
  }

 private:
  struct Attempt {
    std::optional<ListeningAddress> address{};
    bool under_way = false;
    Clock::time_point next{};
    std::string reason{};
  };

  std::string name_of(int rank) const {
    return fmt::format("rank {}", context_.world_ranks[static_cast<std::size_t>(rank)]);
  }

  void listen() {
    own_.host = own_host(context_);
    own_.token = random_token();
    listener_ = listen_at(own_);
    context_.store->set(address_key(context_.rank), to_bytes(print(own_)));
  }

  // One after the other, because the next address is usually available already.
  void look_for_addresses() {
    while (known_ < attempts_.size() && Clock::now() >= next_look_) {
      const auto key = address_key(static_cast<int>(known_));
      if (!context_.store->check({key})) {
        next_look_ = Clock::now() + pause_;
        pause_ = std::min(pause_ * 2, longest_pause(context_.size));
        return;
      }
      attempts_[known_].address = parse_listening_address(to_text(context_.store->get(key)));
      ++known_;
      pause_ = kFirstPause;
    }
  }

  void begin_attempts() {
    for (std::size_t rank = 0; rank < known_; ++rank) {
      auto& attempt = attempts_[rank];
      if (attempt.under_way || connections_[rank].socket || Clock::now() < attempt.next) continue;
      attempt.under_way = true;
      try {
        connect_to(static_cast<int>(rank), *attempt.address);
      } catch (const Error& error) {
        try_again(static_cast<int>(rank), error.message());
      }
    }
  }

  void connect_to(int rank, const ListeningAddress& address) {
    auto& handshake = add(begin_to_connect(address), Side::client);
    handshake.address = address_of(address);
    handshake.rank = rank;
    handshake.phase = Handshake::Phase::connects;
    handshake.wait = Wait::to_write;
    handshake.out = print(Hello{address.token, context_.rank});
  }

  Handshake& add(UniqueFd socket, Side side) {
    const int no_delay = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &no_delay, sizeof no_delay);
    auto& handshake = handshakes_.emplace_back();
    handshake.socket = std::move(socket);
    handshake.side = side;
    handshake.deadline = Clock::now() + kHandshakeTime;
    const int descriptor = handshake.socket.get();
    handshake.stream =
        context_.tls ? std::make_unique<Stream>(descriptor, context_.tls, side) : std::make_unique<Stream>(descriptor);
    handshake.wait = Wait::to_read;
    return handshake;
  }

  void try_again(int rank, const std::string& reason) {
    auto& attempt = attempts_[static_cast<std::size_t>(rank)];
    attempt.under_way = false;
    attempt.next = Clock::now() + kNextAttempt;
    attempt.reason = reason;
  }

  void wait() {
    std::vector<pollfd> polled = {{listener_.get(), POLLIN, 0}};
    for (const auto& handshake : handshakes_) {
      polled.push_back(
          {handshake.socket.get(), static_cast<short>(handshake.wait == Wait::to_write ? POLLOUT : POLLIN), 0});
    }
    auto until = std::min(deadline_, next_check_);
    if (known_ < attempts_.size()) until = std::min(until, next_look_);
    for (std::size_t rank = 0; rank < known_; ++rank) {
      if (!attempts_[rank].under_way && !connections_[rank].socket) until = std::min(until, attempts_[rank].next);
    }
    const auto left =
        std::clamp(std::chrono::ceil<milliseconds>(until - Clock::now()), milliseconds(0), milliseconds(1000));
    ::poll(polled.data(), polled.size(), static_cast<int>(left.count()));
  }

  void accept() {
    for (;;) {
      UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket) return;
      const auto is_unknown = [](const Handshake& handshake) { return handshake.side == Side::server; };
      if (static_cast<std::size_t>(std::count_if(handshakes_.begin(), handshakes_.end(), is_unknown)) >=
          kMostUnknownPeers) {
        const auto oldest = std::find_if(handshakes_.begin(), handshakes_.end(), is_unknown);
        note_refusal(*oldest, fmt::format("it was the oldest of {} connections that had not identified themselves",
                                          kMostUnknownPeers));
        handshakes_.erase(oldest);
      }
      auto address = address_of_peer(socket.get());
      add(std::move(socket), Side::server).address = std::move(address);
    }
  }

  void note_refusal(const Handshake& handshake, const std::string& reason) {
    refusals_.note(fmt::format("a connection to {} from {}", name_of(context_.rank), handshake.address), reason,
                   Clock::now());
  }

  /// False when the handshake has succeeded or failed.
  bool serve(Handshake& handshake) {
    try {
      if (handshake.phase == Handshake::Phase::refused) return is_refused_peer_there(handshake);
      if (advance(handshake, [this](const Hello& hello) { check_hello(hello); })) return keep(handshake), false;
      if (Clock::now() < handshake.deadline) return true;
      fail(ErrorKind::timeout, "tcp", "it did not identify itself within {} s", kHandshakeTime.count() / 1000);
    } catch (const Error& error) {
      if (handshake.side == Side::client) {
        if (error.kind() == ErrorKind::environment) {
          fail(ErrorKind::environment, "tcp", "the TLS handshake of {} at {} with this rank failed: {}",
               name_of(handshake.rank), handshake.address, error.message());
        }
        return try_again(handshake.rank, error.message()), false;
      }
      note_refusal(handshake, error.message());
      refuse(handshake);
      return true;
    }
  }

  void check_hello(const Hello& hello) const {
    const auto [token, rank] = hello;
    if (token != own_.token) fail(ErrorKind::data, "tcp", "it does not belong to this rendezvous of the group");
    if (rank <= context_.rank || rank >= context_.size) {
      fail(ErrorKind::data, "tcp", "it identifies itself as rank {}", rank);
    }
    if (connections_[static_cast<std::size_t>(rank)].socket) {
      fail(ErrorKind::data, "tcp", "it identifies itself as rank {}, which is connected already", rank);
    }
  }

  void keep(Handshake& handshake) {
    const auto name = context_.describe_rank ? context_.describe_rank(handshake.rank) : name_of(handshake.rank);
    connections_[static_cast<std::size_t>(handshake.rank)] = {std::move(handshake.socket), std::move(handshake.stream),
                                                              name_of(handshake.rank),
                                                              fmt::format("{} at {}", name, handshake.address)};
    ++met_;
  }

  void check() {
    const auto now = Clock::now();
    refusals_.tick(now);
    if (now >= next_check_) {
      if (context_.while_connecting) context_.while_connecting(others_);
      next_check_ = now + pause_between_checks(context_.size);
    }
    if (now < deadline_ || met_ == others_.size()) return;
    std::vector<std::string> missing;
    for (const int rank : others_) {
      if (connections_[static_cast<std::size_t>(rank)].socket) continue;
      const bool tried = rank < context_.rank && !attempts_[static_cast<std::size_t>(rank)].reason.empty();
      missing.push_back(tried ? fmt::format("{} ({})", name_of(rank), attempts_[static_cast<std::size_t>(rank)].reason)
                              : name_of(rank));
    }
    fail(ErrorKind::timeout, "tcp", "not connected within {:.1f} s: {}",
         static_cast<double>(context_.start_timeout.count()) / 1000, fmt::join(missing, ", "));
  }

  const BackendContext& context_;
  std::vector<int> others_;
  std::vector<Connection> connections_;  ///< by rank
  std::size_t met_ = 0;
  UniqueFd listener_;
  ListeningAddress own_;
  std::vector<Attempt> attempts_;  ///< of the ranks below this one
  std::size_t known_ = 0;          ///< the number of ranks, from rank 0 on, whose addresses are known
  std::list<Handshake> handshakes_;
  Clock::time_point deadline_;
  Clock::time_point next_check_ = Clock::now() + milliseconds(50);
  Clock::time_point next_look_{};
  milliseconds pause_ = kFirstPause;
  RefusalLog refusals_;
};

}  // namespace

std::vector<Connection> meet(const BackendContext& context) { return Rendezvous(context).run(); }

}  // namespace lockstep::detail::tcp
