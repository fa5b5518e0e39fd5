#include <lockstep/base/terminal.h>
#include <lockstep/cluster/launch.h>

#include <sys/ioctl.h>

#include <algorithm>

namespace lockstep::cluster {

int columns_for_ranks(const LaunchOptions& options, int last_rank) {
  winsize size{};
  const bool shown = is_terminal_of_session(options.out, options.environment);
  if (!shown || ::ioctl(options.out, TIOCGWINSZ, &size) != 0) return 0;
  const auto prefix = options.prefix.of(last_rank, options.processes - 1).size();
  return std::max(0, static_cast<int>(size.ws_col) - static_cast<int>(prefix));
}

}  // namespace lockstep::cluster
