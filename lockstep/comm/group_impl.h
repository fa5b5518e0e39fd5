// The implementation of Group: its members, its backend, and the numbers and failures of its collectives.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/base/status_page.h>
#include <lockstep/comm/backend.h>
#include <lockstep/comm/job_context.h>
#include <lockstep/comm/operator_trace.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// The name of a collective, with its number on the status page. The number is computed at compile time, not in each
/// call.
struct Op {
  std::string_view name;
  std::uint8_t number;

  template <std::size_t N>
  consteval Op(const char (&text)[N]) : name(text, N - 1), number(number_of_collective(name)) {
    if (number == 0) throw "kCollectiveNames lacks this collective";
  }
};

/// The data of this rank's tensor that a call moves.
struct Payload {
  std::uint64_t bytes = 0;  ///< as in Call
  c10::Device device{c10::kCPU};
  std::uint8_t element = 0;  ///< the number of its dtype on the status page; 0: no tensor
};

/// The members of a group, and the rank of this process among them.
struct GroupMembers {
  std::string name;
  std::vector<int> world_ranks;  ///< by group rank
  int rank = 0;
  int local_rank = 0;
  int local_size = 1;
  std::vector<int> hosts;  ///< by group rank, counted from 0 in the order of their first ranks

  int size() const { return static_cast<int>(world_ranks.size()); }
};

/// The members of a group as seen by this process (`self`, a world rank in `world_ranks`), with the hosts of `ranks`.
GroupMembers group_members(std::string name, std::vector<int> world_ranks, int self,
                           const std::vector<RankInfo>& ranks);

class GroupImpl : public std::enable_shared_from_this<GroupImpl> {
 public:
  /// Connects to the other members and makes the backend. `requested` is its name or "auto".
  /// `parent`: the group of which it is a subgroup.
  static std::shared_ptr<GroupImpl> make(std::shared_ptr<JobContext> job, GroupMembers members,
                                         std::string_view requested, GroupImpl* parent = nullptr);

  GroupImpl(std::shared_ptr<JobContext> job, GroupMembers members, std::string_view requested,
            GroupImpl* parent);  ///< for make()
  ~GroupImpl();
  GroupImpl(const GroupImpl&) = delete;
  GroupImpl& operator=(const GroupImpl&) = delete;

  const GroupMembers& members() const { return members_; }
  const std::shared_ptr<JobContext>& job() const { return job_; }
  /// For tensors on the CPU, and for calls without a tensor.
  Backend& backend() { return *backend_; }
  /// For tensors on `device`, which must be one that the group carries.
  Backend& backend_on(c10::Device device) { return device.is_cpu() || !on_device_ ? *backend_ : *on_device_; }
  /// A text that describes the problem with tensors on `device`.
  std::optional<std::string> misplaced(c10::Device device) const {
    return device.is_cpu() || device == device_ ? std::nullopt : misplaced_elsewhere(device);
  }
  /// The device whose tensors the group carries besides those on the CPU; the CPU where there is none.
  c10::Device device() const { return device_; }
  const std::string& device_name() const { return device_name_; }
  /// The name of the backend for its device, if any, else of the backend for the CPU.
  std::string_view backend_name() const { return on_device_ ? on_device_->name() : backend_->name(); }
  /// Called when a subgroup of this group is made without this rank.
  void left_out_of_subgroup();
  std::string_view requested_backend() const { return requested_; }

  /// The next collective (or, for point to point, the next message of this rank). Throws when the group has failed.
  Call begin(const Op& op, const Payload& payload = {});
  Call begin_message(const Op& op, const Payload& payload);
  /// Before a collective on a trace that was restarted: waits until all members have restarted it equally often. Throws
  /// the error of the restart if this rank is behind.
  void meet_on(OperatorTrace& trace) {
    if (trace.failures() != 0) meet_anew(trace);
  }
  /// Before a collective without a trace: the same for all traces of the group.
  void meet_on_traces() {
    if (!traces_.empty()) meet_on_all();
  }
  /// Adds a trace for collectives of this group. All members call it, in the same order.
  void add_trace(const std::shared_ptr<OperatorTrace>& trace) {
    std::erase_if(traces_, [](const auto& each) { return each.expired(); });
    places_ = {};  // the texts of traces that ended may be at the same addresses
    traces_.push_back(trace);
  }
  /// Waits for the pending operation of a call while all other pending operations of this process advance (progress.h),
  /// adds the time to the waiting time of this rank, and records that the call has its result.
  void wait_for(WorkState& work, const Call& call, std::chrono::milliseconds timeout);
  /// Records that a call without a pending operation has its result.
  static void ended(const Call& call) noexcept { StatusPage::complete(call.record, std::chrono::steady_clock::now()); }

  /// While it exists, calls of other threads fail: the numbers of two calls at a time would differ between ranks.
  class SoleCaller {
   public:
    SoleCaller(GroupImpl& group, std::string_view op);
    ~SoleCaller() { group_.in_call_.store(false, std::memory_order_release); }
    SoleCaller(const SoleCaller&) = delete;
    SoleCaller& operator=(const SoleCaller&) = delete;

   private:
    GroupImpl& group_;
  };

  /// The number of the next subgroup, the same on all ranks.
  int next_subgroup() { return ++subgroups_; }

  /// Rethrows `problem` of a call, with its cause as far as known. A lost peer or a timeout ends the group.
  [[noreturn]] void rethrow(const Call& call, std::exception_ptr problem, std::chrono::milliseconds waited);

  /// The same for a call that failed while no thread waited for it. Any thread.
  void end(const Call& call, std::exception_ptr problem, std::chrono::milliseconds waited) noexcept;

  /// The error that ended the group, if any.
  std::optional<Error> failure();

  /// Ends all groups of the job for this rank's own reason, and publishes the reason to the other ranks.
  void abort(std::string_view reason) noexcept;

  /// Makes every later call fail with `error`, and pending ones fail soon. Keeps an earlier reason.
  void end_because(const Error& error) noexcept;

  /// "all_reduce 12 of group "world" on rank 0 of 3", and the position of the calling thread on its trace.
  std::string describe(const Call& call) const;

  /// " in global operator 15, aten::relu of ..." for a call on a trace, else empty.
  std::string here(const Call& call) const;

  /// After a mismatch: throws the error of another rank's failed step, if this rank has to follow it. Else returns ".
  /// The first difference is global operator 15: ...", as far as the other ranks answer within 2 s. Empty for calls
  /// without a trace; another rank may still have failed on a trace before such a call.
  std::string compare_traces(const Call& call);

 private:
  void meet_anew(OperatorTrace& trace);
  void meet_on_all();
  std::vector<std::shared_ptr<OperatorTrace>> traces() const;
  std::string compare_on(OperatorTrace& trace, const Call& call);
  BackendContext backend_context();
  Call recorded(Call call);
  std::uint32_t place_now() noexcept;
  void throw_if_failed(const Call& call);
  std::optional<std::string> misplaced_elsewhere(c10::Device device) const;
  void make_backends(GroupImpl* parent);
  void make_backend_for_cuda(std::string_view& name, GroupImpl* parent);
  template <typename Make>
  void or_tell(const Make& make);
  Error describe_failure(const Call& call, const Error& seen, std::chrono::milliseconds waited);
  int world_rank() const { return members_.world_ranks[static_cast<std::size_t>(members_.rank)]; }
  std::string explain(const Call& call, const Error& seen, std::chrono::milliseconds waited);
  std::string compare_traces(const OperatorTrace& trace, const std::string& key);

  std::shared_ptr<JobContext> job_;
  GroupMembers members_;
  std::string requested_;
  std::uint8_t page_number_;  ///< of this group on the status page
  std::shared_ptr<Backend> backend_;
  /// The numbers on the status page of texts on traces that were used last, by the address of the text.
  std::array<std::pair<const std::string*, std::uint32_t>, 64> places_{};
  std::atomic<bool> in_call_{false};
  std::uint64_t sequence_ = 0;
  std::map<std::string, std::uint64_t> met_;  ///< by trace, the last restart that all members have made
  std::vector<std::weak_ptr<OperatorTrace>> traces_;
  std::uint64_t messages_ = 0;
  int subgroups_ = 0;
  std::mutex failing_;  ///< held while one thread determines why the group failed
  std::mutex mutex_;    ///< protects failure_, because several threads may wait for works
  std::optional<Error> failure_;
  c10::Device device_{c10::kCPU};
  std::string device_name_ = "cpu";
  std::unique_ptr<Backend> on_device_;  ///< none where backend_ carries all; its thread uses the members above
};

}  // namespace lockstep::detail
