// The plan of each collective: which engine moves which data; and the pipeline that advances the plans of all pending
// operations. One source for each family of plans:
//   reductions.cpp   all_reduce, reduce, reduce_scatter
//   copies.cpp       broadcast, all_gather, barrier; gather, scatter, all_to_all, send, receive
//
// The tensors are those of Backend's functions; the plans hold them. `Engines` must outlive the plan.
//
// A plan lists the steps of one operation on one rank, in order. Each engine is a lane, on which operations run in the
// order in which they were called. That order is the same on all ranks, so all ranks of an engine run the same
// sequence, whenever each of them reaches it. While one operation is on the network, the next is reduced inside the
// host and the previous one is broadcast there.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/comm/backend.h>
#include <lockstep/comm/reduction/kernels.h>

#include <ATen/core/Tensor.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep::detail::hierarchy {

using reduction::RankRange;

/// The hosts of a group, and the ranks that share each of them. Hosts are numbered in the order of their lowest ranks.
/// The ranks of a host need not be consecutive, and their number may differ between hosts. The lowest rank of a host is
/// its leader.
struct Hosts {
  struct Place {
    int host = 0;
    int local = 0;  ///< position among the host's ranks
    bool operator==(const Place&) const = default;
  };

  std::vector<std::vector<int>> members;  ///< group ranks by host, ascending
  std::vector<Place> places;              ///< by group rank
  Place self;
  /// By host: the subtrees that its ranks form. There is one for each host where the ranks of a host are consecutive
  /// and their number is a power of two, the same on all hosts (or fewer on the last).
  std::vector<std::vector<RankRange>> subtrees;

  int count() const { return static_cast<int>(members.size()); }
  int size() const { return static_cast<int>(places.size()); }
  const std::vector<int>& neighbours() const { return members[static_cast<std::size_t>(self.host)]; }
  const Place& place_of(int rank) const { return places[static_cast<std::size_t>(rank)]; }
  const std::vector<RankRange>& own_subtrees() const { return subtrees[static_cast<std::size_t>(self.host)]; }
  bool leads() const { return self.local == 0; }

  int width() const;  ///< number of ranks on the host with the most ranks
  bool even() const;  ///< whether all hosts have the same number of ranks
  /// Whether the hosts are even, and the ranks of the first host come first, then those of the second, and so on.
  bool in_order() const;

  /// A column is the ranks with one local position, one of each host. Where hosts are even there is a column for each
  /// position, so that several connections share the traffic; otherwise there is only the column of the leaders.
  int columns() const { return even() ? width() : 1; }
  bool in_column() const { return self.local < columns(); }
  std::vector<int> column(int local) const;  ///< group ranks, by host
};

/// `host_numbers`: the host of each group rank, numbered from 0 in the order of the hosts' lowest ranks.
Hosts hosts_of(const std::vector<int>& host_numbers, int rank);

/// `up` and `down` have the same ranks, and both use memory of `up` in place. There are two, because an operation
/// starts on `down` when it has crossed the network, at a time that differs between ranks: on a single backend it would
/// run before a later operation's first half on one rank and after it on another.
struct Engines {
  Hosts hosts;
  std::unique_ptr<Backend> up;      ///< the ranks of this host: towards the network; shm, or self for a single rank
  std::unique_ptr<Backend> across;  ///< the ranks of this rank's column, numbered by host; null: in no column
  std::unique_ptr<Backend> down;    ///< the ranks of this host: for data from the network
  std::unique_ptr<Backend> direct;  ///< all ranks: for data that differs for each rank
};

/// Makes the backends. Collective over the group.
Engines meet(const BackendContext& context);

/// The engine for a step (see Engines). `message`: point to point, on any engine.
enum class Lane { up, across, down, direct, message };

struct Step {
  Lane lane;
  std::function<Backend::Pending()> start;
};

/// Steps run in order: each starts when the previous one is complete. All ranks of an engine run the steps of the same
/// operations on it. The functions own the tensors that they use.
struct Plan {
  std::vector<Step> steps;
  std::function<void()> finish;  ///< after the last step; may be empty

  void add(Lane lane, std::function<Backend::Pending()> start) { steps.push_back({lane, std::move(start)}); }
};

}  // namespace lockstep::detail::hierarchy

namespace lockstep::detail {

/// A part of a whole, in elements or bytes.
struct Span {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  bool operator==(const Span&) const = default;
};

/// [0, total) in order, in parts of size `most`, where the last part may be smaller; none for a total of 0.
std::vector<Span> split(std::int64_t total, std::int64_t most);

}  // namespace lockstep::detail

namespace lockstep::detail::hierarchy {

/// The parts of `flat` (one dimension) that the columns carry; column i carries part i. Parts consist of whole cache
/// lines. There is a single part, for the leaders, where there is only one column or the data is too small to be worth
/// several messages.
std::vector<at::Tensor> slices_of(const Hosts& hosts, const at::Tensor& flat);

/// Broadcasts every slice inside this host, from the rank that carries it to the others.
Backend::Pending hand_out(const Engines& engines, const std::vector<at::Tensor>& slices, const Call& call);

Plan all_reduce(const Engines& engines, at::Tensor tensor, ReduceOp op, const Call& call);
Plan reduce(const Engines& engines, at::Tensor tensor, int root, ReduceOp op, const Call& call);
Plan reduce_scatter(const Engines& engines, at::Tensor output, at::Tensor input, ReduceOp op, const Call& call);

Plan broadcast(const Engines& engines, at::Tensor tensor, int root, const Call& call);
Plan all_gather(const Engines& engines, at::Tensor output, at::Tensor input, const Call& call);
Plan barrier(const Engines& engines, const Call& call);

/// `output` and `input` are undefined where Backend's pointer is null.
Plan gather(const Engines& engines, at::Tensor output, at::Tensor input, int root, const Call& call);
Plan scatter(const Engines& engines, at::Tensor output, at::Tensor input, int root, const Call& call);
Plan all_to_all(const Engines& engines, at::Tensor output, at::Tensor input, const Call& call);
Plan send(const Engines& engines, at::Tensor tensor, int destination, int tag, const Call& call);
Plan receive(const Engines& engines, at::Tensor tensor, int source, int tag, const Call& call);

/// There is no thread: plans advance inside calls of this class, and every call advances all of them as far as
/// possible. Thread-safe. A failure in one plan fails all plans, as Error(peer_lost) or Error(timeout); a message
/// itself keeps the kind of its error.
class Pipeline {
 public:
  /// `throw_if_failed` is called every 50 ms while waiting; it throws when a rank of the job has given up.
  explicit Pipeline(std::function<void()> throw_if_failed) : throw_if_failed_(std::move(throw_if_failed)) {}

  /// The returned state refers to the pipeline.
  Backend::Pending start(Plan plan);

  // As in Backend.
  bool is_unfinished() const noexcept { return unfinished_; }
  Progressed advance_all() noexcept;

 private:
  struct Operation;
  class State;
  using Lock = std::unique_lock<std::mutex>;
  using Clock = std::chrono::steady_clock;
  using Line = std::deque<const Operation*>;

  void wait(const Operation& operation, std::chrono::milliseconds timeout);
  bool test(const Operation& operation);
  void check(const Operation& operation);
  bool advance();
  bool advance(Operation& operation);
  Line* line_of(Lane lane);
  void check_peers(const Operation& operation);
  void fail_all(const Error& error);

  std::function<void()> throw_if_failed_;
  std::mutex mutex_;
  std::deque<std::shared_ptr<Operation>> operations_;  ///< not complete, in the order of their calls
  std::array<Line, 4> lines_;                          ///< by Lane: those whose step on it has not started, in order
  std::atomic<bool> unfinished_{false};                ///< whether there are operations
  std::optional<Error> failure_;
};

}  // namespace lockstep::detail::hierarchy
