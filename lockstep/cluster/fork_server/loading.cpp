#include <lockstep/cluster/fork_server/loading.h>
#include <lockstep/cluster/poller.h>

#include <fcntl.h>
#include <unistd.h>

#include <array>

namespace lockstep::cluster {
namespace {

constexpr std::chrono::hours kLook(1);  // everything here is an event

/// True while there is more.
bool read_some(UniqueFd& stream, std::string& text) {
  std::array<char, 4096> buffer;
  const ssize_t count = ::read(stream.get(), buffer.data(), buffer.size());
  if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
  if (count == 0) stream.reset();
  return count > 0;
}

void read_rest(UniqueFd& stream, std::string& text) {
  if (!stream) return;
  ::fcntl(stream.get(), F_SETFL, O_NONBLOCK);
  while (read_some(stream, text)) {
  }
  stream.reset();
}

}  // namespace

bool read_until_readable(UniqueFd& out, std::string& out_text, UniqueFd& err, std::string& err_text, int awaited,
                         int stop_fd) {
  bool ready = false;
  bool stopped = false;
  while (!ready && !stopped) {
    Poller poller;
    if (stop_fd >= 0) poller.add(stop_fd, POLLIN, [&] { stopped = true; });
    if (out) poller.add(out.get(), POLLIN, [&] { read_some(out, out_text); });
    if (err) poller.add(err.get(), POLLIN, [&] { read_some(err, err_text); });
    poller.add(awaited, POLLIN, [&] { ready = true; });
    poller.wait(kLook);
  }
  read_rest(out, out_text);
  read_rest(err, err_text);
  return ready;
}

}  // namespace lockstep::cluster
