// Two "hosts" on this machine: network namespaces, joined by a cable of limited bandwidth.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <array>
#include <cstdint>
#include <string>

namespace lockstep::test {

/// The namespaces have no names and no processes of their own: the kernel takes them away, with the cable and its
/// limits, when the last process that holds them ends, however it ends.
class TwoHosts {
 public:
  /// Error(unsupported) with the reason where they cannot be made: no right to, no iproute2. From a process with one
  /// thread.
  TwoHosts();

  /// Moves this process (which has one thread) to a host, 0 or 1.
  void enter(int host) const;

  static std::string address(int host);

  /// Pulls the cable out of the host this process is on: nothing comes or goes, and nobody is told.
  static void unplug();

 private:
  std::array<UniqueFd, 2> namespaces_;
};

/// What went over the cable since it was made, as the host that this process is on sees it.
struct Traffic {
  std::int64_t sent = 0;
  std::int64_t received = 0;
};
Traffic traffic();

}  // namespace lockstep::test
