#include <lockstep/comm/tls/meeting.h>

#include <lockstep/base/error.h>
#include <lockstep/base/refusal_log.h>
#include <lockstep/base/secret.h>
#include <lockstep/comm/meet/addresses.h>
#include <lockstep/comm/meet/stores.h>
#include <lockstep/comm/tls/door.h>
#include <lockstep/comm/tls/knock.h>

#include <fmt/format.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <list>
#include <utility>

namespace lockstep::detail::tls {
namespace {

using Clock = std::chrono::steady_clock;
using Wait = net::TlsStream::Wait;
using Side = net::TlsStream::Side;
using std::chrono::milliseconds;

constexpr milliseconds kStrangersTime = std::chrono::seconds(10);
constexpr std::size_t kMostStrangers = 128;
constexpr milliseconds kNextAttempt(200);

// Between two questions to the store, which all ranks ask: the more they are, the longer.
constexpr milliseconds kFirstPause(1);
milliseconds longest_pause(int ranks) { return std::max(milliseconds(50), milliseconds(ranks / 2)); }
milliseconds pause_between_checks(int ranks) { return std::max(milliseconds(100), milliseconds(ranks)); }

std::string address_key(int rank) { return fmt::format("tls/address/{}", rank); }

std::string own_host(const BackendContext& context) {
  if (const auto named = named_interface_address(current_environment())) return *named;
  if (context.one_host) return "127.0.0.1";
  return context.bind_address.empty() ? outward_address() : context.bind_address;
}

class Meeting {
 public:
  explicit Meeting(const BackendContext& context)
      : context_(context),
        connections_(static_cast<std::size_t>(context.size)),
        doors_(static_cast<std::size_t>(context.rank)),
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
      for (auto knock = knocks_.begin(); knock != knocks_.end();)
        knock = serve(*knock) ? std::next(knock) : knocks_.erase(knock);
      check();
    }
    refusals_.finish();
    return std::move(connections_);
  }

 private:
  struct Attempt {
    std::optional<Door> door{};
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

  // One after the other: most often the next is there already.
  void look_for_addresses() {
    while (known_ < doors_.size() && Clock::now() >= next_look_) {
      const auto key = address_key(static_cast<int>(known_));
      if (!context_.store->check({key})) {
        next_look_ = Clock::now() + pause_;
        pause_ = std::min(pause_ * 2, longest_pause(context_.size));
        return;
      }
      doors_[known_].door = parse_door(to_text(context_.store->get(key)));
      ++known_;
      pause_ = kFirstPause;
    }
  }

  void begin_attempts() {
    for (std::size_t rank = 0; rank < known_; ++rank) {
      auto& attempt = doors_[rank];
      if (attempt.under_way || connections_[rank].socket || Clock::now() < attempt.next) continue;
      attempt.under_way = true;
      try {
        connect_to(static_cast<int>(rank), *attempt.door);
      } catch (const Error& error) {
        try_again(static_cast<int>(rank), error.message());
      }
    }
  }

  void connect_to(int rank, const Door& door) {
    auto& knock = add(begin_to_connect(door), Side::client);
    knock.address = address_of(door);
    knock.rank = rank;
    knock.phase = Knock::Phase::connects;
    knock.wait = Wait::to_write;
    knock.out = print(Hello{door.token, context_.rank});
  }

  Knock& add(UniqueFd socket, Side side) {
    const int no_delay = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &no_delay, sizeof no_delay);
    auto& knock = knocks_.emplace_back();
    knock.socket = std::move(socket);
    knock.side = side;
    knock.deadline = Clock::now() + kStrangersTime;
    knock.stream = std::make_unique<net::TlsStream>(context_.tls, side, knock.socket.get());
    knock.wait = Wait::to_read;
    return knock;
  }

  void try_again(int rank, const std::string& reason) {
    auto& attempt = doors_[static_cast<std::size_t>(rank)];
    attempt.under_way = false;
    attempt.next = Clock::now() + kNextAttempt;
    attempt.reason = reason;
  }

  void wait() {
    std::vector<pollfd> polled = {{listener_.get(), POLLIN, 0}};
    for (const auto& knock : knocks_) {
      polled.push_back({knock.socket.get(), static_cast<short>(knock.wait == Wait::to_write ? POLLOUT : POLLIN), 0});
    }
    auto until = std::min(deadline_, next_check_);
    if (known_ < doors_.size()) until = std::min(until, next_look_);
    for (std::size_t rank = 0; rank < known_; ++rank) {
      if (!doors_[rank].under_way && !connections_[rank].socket) until = std::min(until, doors_[rank].next);
    }
    const auto left =
        std::clamp(std::chrono::ceil<milliseconds>(until - Clock::now()), milliseconds(0), milliseconds(1000));
    ::poll(polled.data(), polled.size(), static_cast<int>(left.count()));
  }

  void accept() {
    for (;;) {
      UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket) return;
      const auto is_stranger = [](const Knock& knock) { return knock.side == Side::server; };
      if (static_cast<std::size_t>(std::count_if(knocks_.begin(), knocks_.end(), is_stranger)) >= kMostStrangers) {
        const auto oldest = std::find_if(knocks_.begin(), knocks_.end(), is_stranger);
        note_refusal(*oldest,
                     fmt::format("it was the oldest of {} connections that had not said who they are", kMostStrangers));
        knocks_.erase(oldest);
      }
      auto address = address_of_peer(socket.get());
      add(std::move(socket), Side::server).address = std::move(address);
    }
  }

  void note_refusal(const Knock& knock, const std::string& reason) {
    refusals_.note(fmt::format("a connection to {} from {}", name_of(context_.rank), knock.address), reason,
                   Clock::now());
  }

  /// False when it is over, one way or the other.
  bool serve(Knock& knock) {
    try {
      if (knock.phase == Knock::Phase::stays_refused) return stays(knock);
      if (advance(knock, [this](const Hello& hello) { check_hello(hello); })) return keep(knock), false;
      if (Clock::now() < knock.deadline) return true;
      fail(ErrorKind::timeout, "tls", "it did not say who it is within {} s", kStrangersTime.count() / 1000);
    } catch (const Error& error) {
      if (knock.side == Side::client) {
        if (error.kind() == ErrorKind::environment) {
          fail(ErrorKind::environment, "tls", "{} at {} and this rank do not trust each other: {}", name_of(knock.rank),
               knock.address, error.message());
        }
        return try_again(knock.rank, error.message()), false;
      }
      note_refusal(knock, error.message());
      refuse(knock);
      return true;
    }
  }

  void check_hello(const Hello& hello) const {
    const auto [token, rank] = hello;
    if (token != own_.token) fail(ErrorKind::data, "tls", "it does not belong to this meeting of the group");
    if (rank <= context_.rank || rank >= context_.size) {
      fail(ErrorKind::data, "tls", "it says that it is rank {}", rank);
    }
    if (connections_[static_cast<std::size_t>(rank)].socket) {
      fail(ErrorKind::data, "tls", "it says that it is rank {}, which is connected already", rank);
    }
  }

  void keep(Knock& knock) {
    const auto name = context_.describe_rank ? context_.describe_rank(knock.rank) : name_of(knock.rank);
    connections_[static_cast<std::size_t>(knock.rank)] = {std::move(knock.socket), std::move(knock.stream),
                                                          name_of(knock.rank),
                                                          fmt::format("{} at {}", name, knock.address)};
    ++met_;
  }

  void check() {
    const auto now = Clock::now();
    refusals_.tick(now);
    if (now >= next_check_) {
      if (context_.while_meeting) context_.while_meeting(others_);
      next_check_ = now + pause_between_checks(context_.size);
    }
    if (now < deadline_ || met_ == others_.size()) return;
    std::vector<std::string> missing;
    for (const int rank : others_) {
      if (connections_[static_cast<std::size_t>(rank)].socket) continue;
      const bool tried = rank < context_.rank && !doors_[static_cast<std::size_t>(rank)].reason.empty();
      missing.push_back(tried ? fmt::format("{} ({})", name_of(rank), doors_[static_cast<std::size_t>(rank)].reason)
                              : name_of(rank));
    }
    fail(ErrorKind::timeout, "tls", "not connected within {:.1f} s: {}",
         static_cast<double>(context_.start_timeout.count()) / 1000, fmt::join(missing, ", "));
  }

  const BackendContext& context_;
  std::vector<int> others_;
  std::vector<Connection> connections_;  ///< by rank
  std::size_t met_ = 0;
  UniqueFd listener_;
  Door own_;
  std::vector<Attempt> doors_;  ///< of the ranks below this one
  std::size_t known_ = 0;       ///< so many of them, from rank 0 on, have told their address
  std::list<Knock> knocks_;
  Clock::time_point deadline_;
  Clock::time_point next_check_ = Clock::now() + milliseconds(50);
  Clock::time_point next_look_{};
  milliseconds pause_ = kFirstPause;
  RefusalLog refusals_;
};

}  // namespace

std::vector<Connection> meet(const BackendContext& context) {
  if (!context.tls) fail(ErrorKind::invalid_argument, "tls", "this job has no certificates: it does not encrypt");
  return Meeting(context).run();
}

}  // namespace lockstep::detail::tls
