// A group of ranks that communicate: a value handle, cheap to copy; the ways to connect one; and recovery after the
// loss of ranks.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/world/world.h>

#include <chrono>
#include <cstdint>
#include <functional>
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
  /// "auto" selects self for one rank, shm when all ranks share a host, hierarchy when some of them do, and tcp when
  /// none do. Hierarchy is shm inside each host, and between hosts tcp, or mpi where mpirun started the ranks without
  /// `encrypt`. Other values: self, shm, tcp, mpi, hierarchy; gloo, a word for tcp; tls, tcp with `encrypt`; and nccl
  /// and staged, which send CUDA tensors, in addition to the choice of "auto" for CPU tensors. If the group has a CUDA
  /// device (`device`), "auto" means nccl for its tensors, with `encrypt` staged; and a backend for the CPU carries
  /// them through the host's memory. With staged, and backends for the CPU, ranks may share a device.
  std::string backend = "auto";
  /// The time limit for all ranks to connect. Overridden by LOCKSTEP_START_TIMEOUT_S.
  std::chrono::milliseconds start_timeout = std::chrono::seconds(kDefaultStartTimeoutS);
  /// The time limit of one collective. Overridden by LOCKSTEP_TIMEOUT_S.
  std::chrono::milliseconds timeout = std::chrono::seconds(kDefaultTimeoutS);
  /// The time without a response from a host's kernel (its ranks may be busy) after which its ranks count as lost, if
  /// ranks are on several hosts and the backend is not mpi. Overridden by LOCKSTEP_HOST_TIMEOUT_S.
  std::chrono::milliseconds host_timeout = std::chrono::seconds(30);
  /// Compare op, dtype, sizes between ranks before each collective so that a mismatch is an error on every rank
  /// instead of a hang. Costs one small message to each rank and makes an asynchronous collective wait, when it is
  /// started, until all ranks have started it. On for programs, whose order of collectives is arbitrary; `lockstep
  /// train`, whose order of collectives is fixed, turns it off (parallel.check_collectives). Overridden by
  /// LOCKSTEP_CHECK_COLLECTIVES=0|1.
  bool check_collectives = true;
  /// Encrypt all data between hosts, and reject processes without a certificate of the job's authority: for tensors
  /// (TLS 1.3 between all ranks) and for the store of the rendezvous. The certificates are those of
  /// `cluster.config_file_path` (LOCKSTEP_CLUSTER_CONFIG), with or without a scheduler. The same on all ranks. Backend
  /// "tls" implies it. Overridden by LOCKSTEP_ENCRYPT=0|1.
  bool encrypt = false;
  /// The program calls rejoin() when ranks are lost (see below): its launcher may replace them in place, as a
  /// scheduler with recovery does. The same on all ranks.
  bool rejoins = false;
  /// Settings of a job with a scheduler, where the variables (MS_SCHED_HOST and so on) do not give them.
  ClusterOptions cluster{};
  /// The device whose tensors the group sends, in addition to tensors on the CPU. "auto": with backend nccl or staged
  /// as
  /// "cuda", else none. "cuda": the visible device (CUDA_VISIBLE_DEVICES) with the number of the local rank, or the
  /// only visible device; backends that allow sharing assign devices in turn. "cuda:1": this device. "cpu": none.
  std::string device = "auto";
  /// The name of the group of all ranks, in messages and on the status page, the same on all ranks. Groups of one
  /// process with several jobs have different names.
  std::string name = "world";
};

/// A fixed, ordered set of ranks with a backend. Ranks inside a group are numbered 0..size-1; world ranks are those of
/// the World. All ranks of a group call its collectives in the same order. Not thread-safe: one thread at a time uses a
/// group.
///
/// A failure is final: once a collective ended in Error(timeout) or Error(peer_lost), every later call on this and the
/// other groups of the job throws an error that names the first reason, and ranks that wait for this one get an error,
/// too. Errors of other kinds leave the group usable.
///
/// Destroying the last handle releases local resources only and sends no messages to other ranks. One exception: after
/// a failure, the process that holds the store of the job keeps it for up to 2 s, so that other ranks can read the
/// reason.
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
  std::string_view backend() const;  ///< that of its device's tensors; "self" in every group of one rank
  /// The device whose tensors the group sends, in addition to tensors on the CPU: "cuda:1", or "cpu" without a device.
  const std::string& device() const;
  const World& world() const;
  std::chrono::milliseconds timeout() const;

  /// A group of the given world ranks, in that order. Every rank of *this* group calls it with the same list, in the
  /// same order as other collectives; ranks outside the list get nullopt. Error on an empty list, a duplicate, or a
  /// rank that is not a member of this group.
  std::optional<Group> subgroup(const std::vector<int>& world_ranks) const;

  /// A handle to the same group whose collectives do not compare arguments first. For calls whose arguments were
  /// compared once, such as a bucket that is reduced every step. All ranks must use it for the same calls.
  Group unchecked() const;
  bool checks_arguments() const { return checks_; }

  /// Reports the reason for which this rank stops to the other ranks, whose errors then name it. Best effort, never
  /// throws, returns at once. Afterwards this group and every other group of the job are unusable on this rank.
  void abort(std::string_view reason) noexcept;

  detail::GroupImpl& impl() const { return *impl_; }

 private:
  std::shared_ptr<detail::GroupImpl> impl_;
  bool checks_ = true;
};

/// Connects to the other ranks of `world` and returns the group of all of them.
/// Environment: LOCKSTEP_BACKEND, LOCKSTEP_START_TIMEOUT_S, LOCKSTEP_TIMEOUT_S, LOCKSTEP_CHECK_COLLECTIVES and
/// LOCKSTEP_ENCRYPT override `options`; LOCKSTEP_SOCKET_IFNAME (or GLOO_SOCKET_IFNAME) names the network interface to
/// use; LOCKSTEP_HOST_ID replaces the identity of this host, so that ranks with different values count as being on
/// different hosts. Errors: timeout, naming the ranks that did not connect; io, when the port of the store is in use;
/// unsupported, for a backend that this build lacks; config, for certificates that cannot be used; mismatch, when only
/// some ranks encrypt; invalid_argument or environment for a bad option or variable.
Group connect(const World& world, const GroupOptions& options = {});

/// The two calls most programs need: detect_world() and connect().
Group init(const GroupOptions& options = {});

/// The same with this backend: init("nccl").
Group init(std::string_view backend);

/// The same for a program that is started once on each of `nodes`, with the same list on all of them.
/// Errors: those of detect_world(NodeList) and connect().
Group init(const NodeList& nodes, const GroupOptions& options = {});

/// The group of all ranks with this rendezvous: init(InitMethod{"tcp://node0:6060", rank, world_size}).
/// Errors: those of detect_world(InitMethod) and connect().
Group init(const InitMethod& method, const GroupOptions& options = {});

// Progress reports of a program to its launcher and scheduler: completed steps and backward passes. These functions are
// not collectives. Call them from the thread that uses the group.

/// Records that this rank has completed step number `step` of its training: when the rank is lost, `lockstep run`
/// reports it (LOCKSTEP_STATUS_FILE). Costs little; under a scheduler it is also in the status. `lockstep train`
/// calls it.
void completed_step(const Group& group, std::int64_t step) noexcept;

/// Records one more backward pass whose gradients were all reduced. DataParallel calls it.
void completed_backward(const Group& group) noexcept;

// The announcement of rank 0's address, for programs whose processes already have a way to send each other short texts.

/// Functions that carry a short text from rank 0 to all other ranks. The thread that connects calls them, and what they
/// throw ends the call of connect().
struct Announcement {
  /// Called on rank 0 once it listens: makes the text known to the other ranks. Called again only if ranks were lost
  /// during the rendezvous; the last text counts.
  std::function<void(const std::string& text)> publish;
  /// Called on the other ranks: waits for the text. The function has a time limit of its own.
  std::function<std::string()> await;
  /// Called repeatedly on rank 0 while it waits for the other ranks, which get an error if it throws. May be empty.
  std::function<void()> give_up{};
};

/// Connects to the other ranks of `world` without a port that is known in advance: rank 0 listens on a free one, and
/// `announcement` carries its address. Of `world`, the rank and the size are used, and local_size where all ranks are
/// on this host; LOCKSTEP_SOCKET_IFNAME names the network interface of rank 0. Several such groups may exist at a time.
/// Each is a job of its own: its failure does not end the others. Environment and errors: those of connect().
Group connect(const World& world, const Announcement& announcement, const GroupOptions& options = {});

// Recovery of a job after the loss of ranks: the other ranks keep their processes and memory, and form a new group with
// the ranks that replace the lost ones.
//
//     GroupOptions options;
//     options.rejoins = true;
//     std::optional<Group> group = lockstep::init(options);
//     while (group) {
//       std::string why;
//       try {
//         const LossWatch watch(*group);
//         ... work ...; break;
//       } catch (const Error& error) {
//         if (!can_rejoin(*group) || !is_loss(error)) throw;
//         why = error.what();
//       }
//       // Outside of the catch, after all objects that use the group are destroyed.
//       group = rejoin(std::move(*group), why);
//     }

/// Whether lost ranks of this job are replaced: by a scheduler with recovery (MS_ENABLE_RECOVERY=1), or by `lockstep
/// run` where the group was made with GroupOptions::rejoins.
bool can_rejoin(const Group& group);

/// Whether an error was caused by the loss of other ranks, so that this rank may continue in the next generation (the
/// group formed after the replacement).
bool is_loss(const Error& error);

/// Releases `group`, which must be the last handle to any group of the job, waits until the lost ranks are replaced,
/// and returns the group of all ranks in the next generation; this process keeps its rank. nullopt when the job was
/// completed meanwhile: some rank had exited successfully, and nothing is left to do. Errors: peer_lost when no
/// replacement joined in time, environment when the scheduler rejects this worker; those of connect().
std::optional<Group> rejoin(Group group, const std::string& reason);

/// While it exists, collectives that this rank waits for fail as soon as the scheduler reports that they cannot
/// succeed; without it a rank detects only local signs: processes that end, connections that break. Without a scheduler
/// it does nothing. Must be destroyed before the last handle to the group.
class LossWatch {
 public:
  explicit LossWatch(const Group& group);
  LossWatch(const LossWatch&) = delete;
  LossWatch& operator=(const LossWatch&) = delete;
  ~LossWatch();

 private:
  Group group_;
};

}  // namespace lockstep
