// The test whether a descriptor is the controlling terminal of this session and TERM is not dumb.
#include <lockstep/base/terminal.h>

#include <termios.h>
#include <unistd.h>

namespace lockstep {

bool is_terminal_of_session(int fd, const Environment& environment) {
  const auto kind = find(environment, "TERM").value_or("");
  if (kind.empty() || kind == "dumb" || ::isatty(fd) != 1) return false;
  return ::tcgetsid(fd) == ::getsid(0);  // tcgetsid fails for a terminal that is not the controlling terminal
}

}  // namespace lockstep
