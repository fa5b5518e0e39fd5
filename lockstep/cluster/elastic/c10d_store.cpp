#include <lockstep/base/deadline_thread.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/unique_fd.h>
#include <lockstep/cluster/elastic/c10d_store.h>
#include <lockstep/comm/c10d_error.h>
#include <lockstep/comm/stores.h>
#include <lockstep/world/await_listener.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

namespace lockstep::cluster::elastic {
namespace {

using detail::first_line;
using detail::StorePtr;
using detail::to_bytes;
using detail::to_text;
using std::chrono::milliseconds;

double seconds(milliseconds time) { return static_cast<double>(time.count()) / 1000; }

std::string name_of(const std::string& host, std::uint16_t port) {
  if (host.find(':') != std::string::npos) return fmt::format("the c10d store at [{}]:{}", host, port);
  return fmt::format("the c10d store at {}:{}", host, port);
}

/// c10d's own calls wait for as long as the network lets them, hence the thread.
class C10dStore final : public KeyValueStore {
 public:
  C10dStore(StorePtr store, std::string name, milliseconds limit)
      : store_(std::move(store)), name_(std::move(name)), limit_(limit) {}

  std::optional<std::string> get(const std::string& key) override {
    return in_time([store = store_, key]() -> std::optional<std::string> {
      if (!store->check({key})) return std::nullopt;
      return to_text(store->get(key));
    });
  }

  std::vector<std::optional<std::string>> get_all(const std::vector<std::string>& keys) override {
    return in_time([store = store_, keys] {
      std::vector<std::optional<std::string>> values;
      values.reserve(keys.size());
      for (const std::string& key : keys) {
        values.push_back(store->check({key}) ? std::optional(to_text(store->get(key))) : std::nullopt);
      }
      return values;
    });
  }

  void set(const std::string& key, const std::string& value) override {
    in_time([store = store_, key, value] {
      store->set(key, to_bytes(value));
      return true;
    });
  }

  std::int64_t add(const std::string& key, std::int64_t delta) override {
    return in_time([store = store_, key, delta] { return store->add(key, delta); });
  }

  // To c10d no value and an empty one are the same, and it answers with what the key then holds.
  bool replace(const std::string& key, const std::optional<std::string>& expected, const std::string& value) override {
    return in_time([store = store_, key, expected = expected.value_or(""), value] {
      return to_text(store->compareSet(key, to_bytes(expected), to_bytes(value))) == value;
    });
  }

  std::string describe() const override { return name_; }

 private:
  template <typename Work>
  auto in_time(Work work) -> decltype(work()) {
    try {
      if (auto result = thread_.within(limit_, std::move(work))) {
        answered_ = true;
        return *std::move(result);
      }
    } catch (const std::exception& error) {
      fail(ErrorKind::peer_lost, "rendezvous", "{} is lost: the launcher that holds it has gone ({})", name_,
           first_line(error));
    }
    if (!answered_) {
      fail(ErrorKind::timeout, "rendezvous",
           "{} has taken the connection and not answered for {:.1f} s: if another program listens there, which is no "
           "store, choose another port; if not, look whether the launcher that holds it hangs",
           name_, seconds(limit_));
    }
    fail(ErrorKind::timeout, "rendezvous",
         "{} has not answered for {:.1f} s: the host of the launcher that holds it, or the network to it, has gone",
         name_, seconds(limit_));
  }

  StorePtr store_;
  std::string name_;
  milliseconds limit_;
  bool answered_ = false;  ///< ever
  DeadlineThread thread_;
};

[[noreturn]] void fail_to_open(const std::string& host, std::uint16_t port, const std::string& why) {
  fail(ErrorKind::io, "rendezvous",
       "cannot open port {} of this host for {}: {}. If another program uses the port, choose another one", port,
       name_of(host, port), why);
}

/// c10d would find out too, but says so in many lines on stderr first.
std::optional<std::string> why_not_listen(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const auto* raw = reinterpret_cast<const sockaddr*>(&address);
  if (::bind(socket.get(), raw, sizeof address) == 0 && ::listen(socket.get(), 1) == 0) return std::nullopt;
  return std::strerror(errno);
}

[[noreturn]] void fail_to_reach(const std::string& name, milliseconds limit, const std::string& why) {
  fail(ErrorKind::timeout, "rendezvous",
       "cannot reach {} within {:.1f} s: {}. The launcher on the host that --rdzv_endpoint (or --master_addr) names "
       "opens it: start it there, and check the address and that this host can reach it",
       name, seconds(limit), why);
}

}  // namespace

HostedStore host_c10d_store(const std::string& host, std::uint16_t port, const StoreLimits& limits) {
  if (const auto why = why_not_listen(port)) fail_to_open(host, port, *why);
  try {
    const auto store = detail::make_tcp_store("127.0.0.1", port, true, limits.connect);
    const auto chosen = dynamic_cast<const c10d::TCPStore&>(*store).getPort();
    return {std::make_shared<C10dStore>(store, name_of(host, chosen), limits.call), chosen};
  } catch (const std::exception& error) {
    fail_to_open(host, port, first_line(error));
  }
}

KeyValueStorePtr join_c10d_store(const std::string& host, std::uint16_t port, const StoreLimits& limits) {
  const auto name = name_of(host, port);
  const auto tell = [&](std::chrono::seconds waited, const std::string& reason) {
    log_warning("lockstep run: waiting for {}: {} s of at most {:.0f} s ({})", name, waited.count(),
                seconds(limits.connect), reason);
  };
  if (const auto why = await_listener(host, port, limits.connect, tell)) fail_to_reach(name, limits.connect, *why);
  try {
    return std::make_shared<C10dStore>(detail::make_tcp_store(host, port, false, limits.connect), name, limits.call);
  } catch (const std::exception& error) {
    fail_to_reach(name, limits.connect, first_line(error));
  }
}

}  // namespace lockstep::cluster::elastic
