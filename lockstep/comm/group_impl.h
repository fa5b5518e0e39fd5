// The state behind a Group.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/comm/backend.h>
#include <lockstep/comm/backend_context.h>
#include <lockstep/comm/job.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

/// Who is in a group and who of them is this process.
struct Membership {
  std::string name;
  std::vector<int> world_ranks;  ///< by group rank
  int rank = 0;
  int local_rank = 0;
  int local_size = 1;

  int size() const { return static_cast<int>(world_ranks.size()); }
};

/// The membership of this process (`self`, a world rank in `world_ranks`) by the hosts of the roster.
Membership membership(std::string name, std::vector<int> world_ranks, int self, const std::vector<RankInfo>& roster);

class GroupImpl : public std::enable_shared_from_this<GroupImpl> {
 public:
  /// Makes the backend, which meets the other members. `requested` is the backend's name or "auto".
  GroupImpl(std::shared_ptr<Job> job, Membership members, std::string_view requested);
  ~GroupImpl();
  GroupImpl(const GroupImpl&) = delete;
  GroupImpl& operator=(const GroupImpl&) = delete;

  const Membership& members() const { return members_; }
  const std::shared_ptr<Job>& job() const { return job_; }
  Backend& backend() { return *backend_; }
  std::string_view requested_backend() const { return requested_; }

  /// The next collective (or, for point to point, the next message of this rank). Throws when the group has failed.
  Call begin(std::string_view op);
  Call begin_message(std::string_view op);

  /// Number for the next subgroup, the same on all ranks.
  int next_subgroup() { return ++subgroups_; }

  /// Rethrows `problem` of a call, with what is known about its cause. A lost peer or a missed deadline ends the group.
  [[noreturn]] void rethrow(const Call& call, std::exception_ptr problem, std::chrono::milliseconds waited);

  /// Ends the group because of this rank's own reason, and tells the others.
  void abort(std::string_view reason) noexcept;

  /// "all_reduce 12 of group "world" on rank 0 of 3"
  std::string describe(const Call& call) const;

 private:
  BackendContext backend_context();
  void throw_if_failed(const Call& call);
  Error end(const Call& call, const Error& seen, std::chrono::milliseconds waited);
  std::string explain(const Call& call, const Error& seen, std::chrono::milliseconds waited);

  std::shared_ptr<Job> job_;
  Membership members_;
  std::string requested_;
  std::unique_ptr<Backend> backend_;
  std::uint64_t sequence_ = 0;
  std::uint64_t messages_ = 0;
  int subgroups_ = 0;
  std::mutex mutex_;  ///< of failure_, because works may be waited for on several threads
  std::optional<Error> failure_;
};

}  // namespace lockstep::detail
