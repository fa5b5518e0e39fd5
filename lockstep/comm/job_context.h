// The state that all groups of one world share in this process: the store, the ranks' identities, and the job's
// failure.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/base/status_page.h>
#include <lockstep/base/step_times.h>
#include <lockstep/comm/group.h>
#include <lockstep/comm/meet/lost_peers.h>
#include <lockstep/comm/meet/rendezvous.h>
#include <lockstep/comm/meet/stores.h>
#include <lockstep/comm/operator_trace.h>
#include <lockstep/comm/progress.h>
#include <lockstep/membership/member_session.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::detail {

class GroupImpl;

/// The first known failure of the job, as described by the rank that failed.
struct Failure {
  int rank = 0;
  bool aborted = false;  ///< the rank called Group::abort; else a collective failed on it
  std::string reason;
};

/// As thread-safe as the store is.
class JobContext {
 public:
  /// `session`: in a job with a scheduler, else nullptr.
  JobContext(World world, GroupOptions options, OpenedStore store, std::vector<RankInfo> members,
             std::string bind_address, std::shared_ptr<MemberSession> session);
  /// If this process holds the store and the job failed, waits up to 2 s until the other ranks have read the reason.
  ~JobContext();
  JobContext(const JobContext&) = delete;
  JobContext& operator=(const JobContext&) = delete;

  const World& world() const { return world_; }
  const GroupOptions& options() const { return options_; }
  const StorePtr& store() const { return store_.store; }
  const std::vector<RankInfo>& members() const { return members_; }
  const RankInfo& rank_info(int world_rank) const { return members_.at(static_cast<std::size_t>(world_rank)); }
  const std::string& bind_address() const { return bind_address_; }
  /// nullptr without a scheduler.
  const std::shared_ptr<MemberSession>& session() const { return session_; }
  /// The status page of this process. It is a member of the job because the job gives the collectives their numbers.
  StatusPage& status_page() { return status_page_; }

  /// Records that the program has completed this step.
  void complete_step(std::int64_t step) noexcept;

  /// A thread was blocked in a collective for this time, which is not this rank's own work.
  void note_waited(std::chrono::steady_clock::duration time) noexcept {
    waited_.fetch_add(time.count(), std::memory_order_relaxed);
  }
  std::chrono::nanoseconds time_blocked() const noexcept {
    return std::chrono::steady_clock::duration(waited_.load(std::memory_order_relaxed));
  }

  /// The pending operations of its groups.
  Progress& progress() { return progress_; }

  /// Remembers a group of the job for end_groups.
  void enlist(const std::weak_ptr<GroupImpl>& group);

  /// Ends all groups of the job in this process because of `error`, so that ranks that wait for this one also get an
  /// error.
  void end_groups(const Error& error) noexcept;

  /// All ranks are connected: after this call a worker that loses only its connection to the scheduler is not lost.
  void all_joined() noexcept { joined_ = true; }

  /// Makes `fault` the job's failure, unless another rank was first, and returns the job's failure. Never throws.
  Failure publish(const Failure& fault) noexcept;

  /// The known cause why one of the world ranks `waited_for` does not answer, as text: any rank's failure, ranks that
  /// ended on this host, a lost store. Waits up to `patience` for a cause to become known; nullopt when there is none.
  std::optional<std::string> find_cause(const std::vector<int>& waited_for,
                                        std::chrono::milliseconds patience) noexcept;

  /// The same, without patience, for a rank that waits in a working group: here the loss of a launcher's store is not a
  /// cause, because no rank needs the store to continue.
  std::optional<std::string> find_loss(const std::vector<int>& waited_for) noexcept;

  /// The reason of another rank that has failed or given up, as text; nullopt when there is none or the store is gone,
  /// which is possible when its holder has ended normally.
  std::optional<std::string> find_failure() noexcept;

  /// The ranks of `among` whose host's address is in an engine's message; more than one where they share a host.
  std::vector<int> ranks_at_address_in(const std::string& message, const std::vector<int>& among) const;

  /// For an engine that could not connect: ". rank 1 (...) is to be reached at 10.0.0.2, which NCCL_SOCKET_IFNAME=ib
  /// chose ...", for the ranks in its message, else for all of `among`. Empty where no variable chose an address.
  std::string addresses_by_variables(const std::string& message, const std::vector<int>& among) const;

  /// The ranks of `of` that do not wait in the same collective (`key` is unique to it). Called when a deadline has
  /// passed; waits a short time for ranks whose deadline passes a little later.
  std::vector<int> find_absent(const std::string& key, const std::vector<int>& of) noexcept;

  /// Publishes this rank's notes about its trace, and returns the notes of the ranks `of` that arrive within 2 s. `key`
  /// is the same on all of them and is used only once.
  std::vector<NotesOfRank> share_notes(const std::string& key, const std::string& own,
                                       const std::vector<int>& of) noexcept;

 private:
  std::optional<Failure> read_failure();
  std::optional<std::string> failure_elsewhere();
  std::optional<std::string> cause_now(const std::vector<int>& waited_for, bool store_answers);
  std::optional<std::string> word_of_scheduler() const;
  bool recovers() const { return session_ && session_->recovers(); }
  std::string store_is_gone() const;
  bool store_is_away() noexcept;
  std::string with_store_gone(const std::string& cause) const;
  bool store_answers() noexcept;
  void acknowledge() noexcept;
  void linger() noexcept;
  bool everybody_knows();

  std::shared_ptr<MemberSession> session_;  ///< destroyed last, unless there is a next generation
  std::int64_t generation_ = 0;             ///< under a scheduler
  World world_;
  GroupOptions options_;
  OpenedStore store_;
  std::vector<RankInfo> members_;
  std::string bind_address_;
  PeerWatch peers_;
  StatusPage status_page_ = StatusPage::open(current_environment());
  std::atomic<std::chrono::steady_clock::rep> waited_{0};
  std::mutex steps_mutex_;
  StepTimes steps_;
  std::atomic<std::chrono::steady_clock::rep> store_asked_again_{0};  ///< no request before; 0: it has always answered
  std::atomic<bool> failed_{false};
  std::atomic<bool> joined_{false};
  Progress progress_;
  std::mutex groups_mutex_;
  std::vector<std::weak_ptr<GroupImpl>> groups_;
};

}  // namespace lockstep::detail
