#include <lockstep/comm/peer_watch.h>

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace lockstep::detail {

PeerWatch::PeerWatch(const std::vector<RankInfo>& members, int self) {
  const auto& me = members.at(static_cast<std::size_t>(self));
  for (const auto& peer : members) {
    if (peer.rank == self || peer.pid_namespace != me.pid_namespace) continue;
    UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
    // Without a descriptor for another reason than "no such process" (an old kernel, no descriptors left) this peer is
    // not watched; its end is then seen only through the backend.
    if (!process && errno != ESRCH) continue;
    // Compared after opening: the descriptor is of this process and of no later one with its number.
    if (process && started_ticks(peer.pid) != peer.started_ticks) process.reset();
    watched_.push_back({peer.rank, std::move(process)});
  }
}

std::vector<int> PeerWatch::ended(std::chrono::milliseconds limit) const {
  std::vector<pollfd> polled;
  std::vector<int> ranks;
  bool some_ended_before = false;
  for (const auto& peer : watched_) {
    polled.push_back({peer.process.get(), POLLIN, 0});
    some_ended_before = some_ended_before || !peer.process;
  }
  const int wait = some_ended_before ? 0 : static_cast<int>(limit.count());
  if (::poll(polled.data(), polled.size(), wait) < 0) return ranks;
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    if (!watched_[i].process || (polled[i].revents & POLLIN) != 0) ranks.push_back(watched_[i].rank);
  }
  return ranks;
}

}  // namespace lockstep::detail
