// Detection of the end of other ranks on this host, in whatever way they end.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/comm/rendezvous.h>

#include <chrono>
#include <vector>

namespace lockstep::detail {

/// Holds a descriptor of each other rank's process that is visible from here (same machine, same PID namespace). The
/// kernel makes it readable when the process ends, also before it is reaped and when its number is used again.
class PeerWatch {
 public:
  PeerWatch(const std::vector<RankInfo>& members, int self);

  /// Ranks that have ended, in order; waits up to `limit` for the first. Thread-safe.
  std::vector<int> ended(std::chrono::milliseconds limit = std::chrono::milliseconds(0)) const;

 private:
  struct Watched {
    int rank;
    UniqueFd process;  ///< none when the process had ended already
  };
  std::vector<Watched> watched_;
};

}  // namespace lockstep::detail
