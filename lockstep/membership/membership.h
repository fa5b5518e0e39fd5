// The membership of a job, the whole state of the scheduler as a value, and values derived from it: the job's state and
// its end. Pure: time is an argument.
#pragma once

#include <lockstep/base/status_page.h>
#include <lockstep/base/step_times.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::membership {

/// Durations in seconds, for messages.
inline double seconds_in(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

using Time = std::chrono::steady_clock::time_point;

/// The connection of a worker.
enum class Link {
  open,     ///< connected
  closed,   ///< it ended: the process has ended too, or will reconnect
  unknown,  ///< it was connected to a scheduler that has died since: it may reconnect
};

enum class Phase {
  waiting,   ///< registered, or between two generations, and waits for the other workers
  running,   ///< has its rank, and is computing
  finished,  ///< reported that it has finished
  failed,    ///< reported that it cannot continue
};

/// One worker of a job.
struct Member {
  std::string node_id;
  bool named = false;  ///< the user chose the id; else it is random
  std::string life;    ///< identifies the process that has the node id now
  std::string host;
  std::string machine;  ///< equal for members that share one
  std::string address;  ///< as seen by the scheduler
  std::int64_t pid = 0;
  bool server = false;  ///< a parameter server: its rank is behind those of all workers

  std::optional<int> rank;  ///< after the first assignment; does not change then
  std::int64_t generation = 0;
  int restarts = 0;  ///< the number of processes that had this node id, minus the first
  int turn = 0;      ///< see Register

  Phase phase = Phase::waiting;
  Link link = Link::open;
  std::uint64_t connection = 0;  ///< the last one, from 1; 0: none since the state was restored
  Time heard;                    ///< time of the last message; after a restart of the scheduler, the restart
  Time entered;                  ///< when it registered, last
  std::optional<std::int64_t> step;
  Time advanced{};                    ///< when it reported another step, last
  std::optional<StepTime> step_time;  ///< the duration of its recent steps
  std::optional<PageContent> page{};  ///< of its status page, where the job is shown
  std::optional<std::int64_t> memory{};
  std::string last_error;
};

/// The time limits of a job.
struct TimeLimits {
  std::chrono::milliseconds heartbeat_limit =
      std::chrono::seconds(30);  ///< after this silence a worker is lost, for any state of its connection
  std::chrono::milliseconds absence = std::chrono::minutes(15);  ///< for all workers to register, or to reconnect
  std::chrono::milliseconds hang = std::chrono::minutes(2);  ///< for a worker to detect that its generation has ended
};

/// The membership of a job: the whole state of the scheduler, as a value.
struct Membership {
  std::string job;  ///< a random name
  int wanted = 1;   ///< members, servers included
  int servers = 0;  ///< the number of servers among them, as reported by the first member
  bool recovery = false;
  bool programs_follow = false;  ///< true for a launcher: when this job has ended, its workers may begin another one
  TimeLimits limits;

  std::int64_t generation = 0;  ///< rendezvous so far
  /// The newest generation that was formed by this scheduler or is in the saved state whole. `generation` is newer
  /// where workers have brought one that an earlier scheduler could not save.
  std::int64_t saved_generation = 0;
  std::string store_key;   ///< the keys of this generation
  std::string store_host;  ///< the store's host in this generation; empty until rank 0 has published it
  int store_port = 0;
  std::vector<Member> members;  ///< in the order of registration; at most `wanted`
  Time changed;                 ///< when a member registered or was lost
  std::optional<Time> broken;   ///< the time since which a member of this generation is lost, or cannot continue
  std::optional<Time> over;     ///< the time since which that is certain: not only a connection has ended
  std::string last_error;  ///< the error of the first worker lost or failed since all last ran together, with its name
};

/// The member with this id; nullptr when no member has it.
const Member* find_member(const Membership& membership, const std::string& node_id);
Member* find_member(Membership& membership, const std::string& node_id);
Member* find_connection(Membership& membership, std::uint64_t connection);

/// "worker 'w3' (rank 3, pid 12 on host h)".
std::string describe(const Member& member);

/// Whether a member reported that it has finished, or that it cannot continue.
bool is_over(const Member& member);

/// Whether a member that is not over has no connection.
bool is_missing(const Member& member);

/// Whether what is known of the place is older than the generation of the workers that have returned: it comes from a
/// saved state without that generation, in which another process, or this one, may compute in this place.
bool is_outdated(const Membership& membership, const Member& member);

/// The number of members that are connected and have not finished.
int count_present(const Membership& membership);

/// With `programs_follow`, whose node ids are the ranks: "rank 2 has not come" or "ranks 2, 3 have not come".
/// Otherwise, and where all are present, empty.
std::string describe_missing(const Membership& membership);

/// The ranks of lost workers, in their order: the other workers wait for them, unless the job is complete.
std::vector<int> lost_ranks(const Membership& membership);

/// Why the job is complete and needs no more workers, once a member has finished: with recovery, workers end together,
/// after the last operation that needs all of them.
std::optional<std::string> find_completion(const Membership& membership);

/// The states of a job, with the names of MindSpore's scheduler.
enum class State { starting, ready, node_timeout, exit };

State state_of(const Membership& membership);

/// "CLUSTER_STARTING", "CLUSTER_READY", "NODE_TIMEOUT", "CLUSTER_EXIT".
const char* name(State state);

/// What the job cannot go on without: workers that have not registered, or processes in the places of lost ones. Empty:
/// nothing. It is awaited since `changed`.
std::string describe_awaited(const Membership& membership);

/// The end of a job.
struct Ending {
  bool ok = true;
  std::string reason;
};

std::optional<Ending> find_ending(const Membership& membership, Time now);

}  // namespace lockstep::membership
