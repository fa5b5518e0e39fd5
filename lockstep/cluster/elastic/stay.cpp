// The wait of a launcher for those that use its service.
#include <lockstep/cluster/elastic/stay.h>
#include <lockstep/cluster/processes/event_loop.h>

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>

namespace lockstep::cluster::elastic {
namespace {

/// The hard limit can be a billion, and some programs close every descriptor below the soft limit before they start
/// others.
constexpr rlim_t kEnough = 1 << 20;

constexpr std::chrono::milliseconds kLook(50);
constexpr std::chrono::seconds kTellStaying(10);

}  // namespace

void stay_while_used(const std::function<int()>& users, const std::function<void()>& tell) {
  using Clock = std::chrono::steady_clock;
  SignalInbox inbox({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1});
  const auto is_asked_to_go = [&inbox] {
    const auto signal = inbox.take();
    return signal && *signal != SIGUSR1;  // SIGUSR1 is for ranks
  };
  const auto since = Clock::now();
  bool told = false;
  while (!is_asked_to_go() && users() > 0) {
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
