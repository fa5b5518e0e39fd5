#include <lockstep/base/error.h>
#include <lockstep/cluster/poller.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep::cluster {

void Poller::add(int fd, short events, std::function<void()> ready) {
  fds_.push_back({fd, events, 0});
  ready_.push_back(std::move(ready));
}

void Poller::wait(std::chrono::milliseconds limit) {
  const int count = ::poll(fds_.data(), fds_.size(), static_cast<int>(limit.count()));
  if (count < 0 && errno != EINTR)
    fail(ErrorKind::io, "launch", "cannot wait for the ranks: poll: {}", std::strerror(errno));
  for (std::size_t i = 0; count > 0 && i < fds_.size(); ++i) {
    if (fds_[i].revents != 0) ready_[i]();
  }
}

}  // namespace lockstep::cluster
