// The set-up of a group's shared memory: rank 0 creates it and sends it to the others over local sockets.
//
// The ranks also exchange a lifeline of each rank (a descriptor that becomes readable when its process ends for any
// reason) and the processors that each may use. Once all have mapped the memory, the sockets are closed.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/comm/shm/segment.h>
#include <lockstep/comm/shm/socket.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::shm {

struct Gathering {
  Geometry geometry;
  Mapping segment;
  UniqueFd arena;                   ///< an empty memory file for shared blocks
  std::vector<UniqueFd> lifelines;  ///< by rank; this rank's own is closed
  UniqueFd held;                    ///< stays open as long as this rank lives, where lifelines are pipes
  int cpus = 1;                     ///< processors that the ranks may use, all together
};

using WhileWaiting = std::function<void(const std::vector<int>& ranks)>;

/// Rank 0's side.
class Host {
 public:
  /// Error(unsupported) when there are more than kMaxRanks.
  explicit Host(const Geometry& geometry);

  /// The text that the other ranks need to join. It holds a secret: other users of this machine may see that the socket
  /// exists, but only processes of the same user that have the secret are admitted.
  std::string invitation() const;

  /// Waits for all ranks. Error(timeout) names the missing ranks, and the others receive this reason; Error(peer_lost)
  /// names a rank that joined and was lost. `while_waiting` is called every 50 ms with the missing ranks; an exception
  /// of it ends the wait.
  Gathering gather(Deadline deadline, const WhileWaiting& while_waiting = {});

 private:
  struct Guest {
    UniqueFd socket;
    UniqueFd lifeline;
  };
  void admit(std::vector<Guest>& guests, UniqueFd socket, Deadline deadline);
  static std::vector<int> absent_from(const std::vector<Guest>& guests);
  void await_guests(std::vector<Guest>& guests, Deadline deadline, const WhileWaiting& while_waiting);
  void await_ready(const std::vector<Guest>& guests, Deadline deadline);
  void refuse(const std::vector<Guest>& guests, const std::string& reason) noexcept;

  Geometry geometry_;
  std::string address_;
  std::string secret_;
  UniqueFd listener_;
  std::vector<std::uint64_t> cpus_;  // a bit for each processor that some rank may use
  std::optional<uid_t> other_user_;  // the last one that tried to join
};

/// The side of the other ranks. Error(timeout) when not all ranks joined in time.
Gathering join(const std::string& invitation, int rank, int ranks, Deadline deadline);

}  // namespace lockstep::shm
