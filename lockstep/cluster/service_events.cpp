#include <lockstep/base/parse.h>
#include <lockstep/cluster/service_events.h>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <utility>

namespace lockstep::cluster {

ServiceEvents::ServiceEvents(UniqueFd pipe) : pipe_(std::move(pipe)) {
  if (pipe_) ::fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
}

void ServiceEvents::read_some() {
  std::array<char, 4096> buffer;
  while (pipe_) {
    const ssize_t count = ::read(pipe_.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;  // nothing more now
    if (count == 0) pipe_.reset();
    unread_.append(buffer.data(), static_cast<std::size_t>(count));
  }
  for (auto end = unread_.find('\n'); end != std::string::npos; end = unread_.find('\n')) {
    take(unread_.substr(0, end));
    unread_.erase(0, end + 1);
  }
}

void ServiceEvents::take(const std::string& line) {
  if (line == kCompleted) {
    ++completed_;
    lost_.clear();
  } else if (line.starts_with(kLost)) {
    if (const auto process = parse_integer(line.substr(kLost.size()))) lost_.insert(static_cast<pid_t>(*process));
  }
}

}  // namespace lockstep::cluster
