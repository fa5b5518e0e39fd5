// Two counters in the agents' store, users and signs of life: its holder stays while both show that it is used.
#include <lockstep/cluster/elastic/store_users.h>
#include <lockstep/cluster/processes/event_loop.h>

#include <sys/resource.h>

#include <algorithm>
#include <csignal>

namespace lockstep::cluster::elastic {
namespace {

/// The hard limit can be a billion, and some programs close every descriptor below the soft limit before they start
/// others.
constexpr rlim_t kEnough = 1 << 20;

constexpr const char* kUsers = "lockstep/users";
constexpr const char* kSigns = "lockstep/signs_of_life";

constexpr std::chrono::milliseconds kLook(50);
constexpr std::chrono::seconds kTellStaying(10);

}  // namespace

void enter_store(KeyValueStore& store) { store.add(kUsers, 1); }
void show_life(KeyValueStore& store) { store.add(kSigns, 1); }
void leave_store(KeyValueStore& store) { store.add(kUsers, -1); }

bool StoreUsers::any(Time now) {
  if (store_.add(kUsers, 0) <= 0) return false;
  const auto signs = store_.add(kSigns, 0);
  if (signs != signs_) changed_ = now;
  signs_ = signs;
  return now - changed_ < heartbeat_limit_;
}

void stay_while_used(KeyValueStore& store, std::chrono::milliseconds heartbeat_limit,
                     const std::function<void()>& tell) {
  using Clock = std::chrono::steady_clock;
  SignalInbox inbox({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1});
  const auto is_asked_to_go = [&inbox] {
    const auto signal = inbox.take();
    return signal && *signal != SIGUSR1;  // SIGUSR1 is for ranks
  };
  const auto since = Clock::now();
  StoreUsers users(store, heartbeat_limit, since);
  bool told = false;
  while (!is_asked_to_go() && users.any(Clock::now())) {
    if (!told && Clock::now() - since > kTellStaying) {
      tell();
      told = true;
    }
    Poller poller;
    if (inbox.fd() >= 0) poller.add(inbox.fd(), POLLIN, [] {});
    poller.wait(kLook);
  }
}

void raise_open_file_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min(limit.rlim_max, kEnough);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

}  // namespace lockstep::cluster::elastic
