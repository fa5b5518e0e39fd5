// A group of ranks that communicate: a value handle, cheap to copy.
#pragma once

#include <lockstep/world/world.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

namespace detail {
class GroupImpl;
}

struct GroupOptions {
  /// "auto": self alone, shm when all ranks share a host, else gloo. Or self, gloo, mpi, shm.
  std::string backend = "auto";
  /// How long ranks wait for each other to appear. Overridden by LOCKSTEP_START_TIMEOUT_S.
  std::chrono::milliseconds start_timeout = std::chrono::minutes(5);
  /// How long one collective may take. Overridden by LOCKSTEP_TIMEOUT_S.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// Compare op, dtype, sizes between ranks before each collective so that a mismatch is an error on every rank
  /// instead of a hang. Overridden by LOCKSTEP_CHECK_COLLECTIVES=0|1.
  bool check_arguments = true;
};

/// A fixed, ordered set of ranks with a backend. Ranks inside a group count 0..size-1; world ranks are those of the
/// World. All ranks of a group call its collectives in the same order. One thread at a time per group.
/// The last handle's destruction releases local resources only: it never communicates.
class Group {
 public:
  explicit Group(std::shared_ptr<detail::GroupImpl> impl);

  int rank() const;
  int size() const;
  int local_rank() const;  ///< position among this group's ranks on this host
  int local_size() const;
  const std::vector<int>& ranks() const;  ///< world rank of each group rank
  int world_rank(int group_rank) const;   ///< Error(invalid_argument) outside 0..size-1
  int group_rank(int world_rank) const;   ///< Error(invalid_argument) when that rank is not a member
  bool contains(int world_rank) const;
  const std::string& name() const;
  std::string_view backend() const;
  const World& world() const;
  std::chrono::milliseconds timeout() const;

  /// A group of the given world ranks, in that order. Every rank of *this* group calls it with the same list, in the
  /// same order as other collectives; ranks outside the list get nullopt. Error on an empty list, a duplicate, or a
  /// rank that is not a member of this group.
  std::optional<Group> subgroup(const std::vector<int>& world_ranks) const;

  /// Tells the other ranks why this one gives up, so that their errors name the first reason. Best effort, never
  /// throws, returns at once. After it the group must not be used.
  void abort(std::string_view reason) noexcept;

  detail::GroupImpl& impl() const { return *impl_; }

 private:
  std::shared_ptr<detail::GroupImpl> impl_;
};

/// Meets the other ranks of `world` and returns the group of all of them. Error(timeout) names the ranks that never
/// came; Error(unsupported) a backend that this build lacks.
Group connect(const World& world, const GroupOptions& options = {});

/// The two calls most programs need: detect_world() and connect().
Group init(const GroupOptions& options = {});

}  // namespace lockstep
