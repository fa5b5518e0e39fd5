// Who belongs to a job: the scheduler's whole knowledge, as a value.
#pragma once

#include <lockstep/base/step_times.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::scheduler {

using Time = std::chrono::steady_clock::time_point;

/// What is known of a worker's process by its connection.
enum class Link {
  open,     ///< there is one
  closed,   ///< it ended: the process has, too, or will connect again
  unknown,  ///< there was one with a scheduler that has died since: it may be on its way back
};

enum class Phase {
  waiting,   ///< registered, or between two generations, until all others are
  running,   ///< has its rank, and computes
  finished,  ///< said that it is done
  failed,    ///< said that it cannot go on
};

struct Member {
  std::string node_id;
  bool named = false;  ///< somebody chose the id; else it is random
  std::string life;    ///< of the process that has the id now
  std::string host;
  std::string machine;  ///< equal for members that share one
  std::string address;  ///< as the scheduler sees it
  std::int64_t pid = 0;

  std::optional<int> rank;  ///< once seated, and then for good
  std::int64_t generation = 0;
  int restarts = 0;  ///< processes that had this place before, minus the first

  Phase phase = Phase::waiting;
  Link link = Link::open;
  std::uint64_t connection = 0;  ///< with Link::open
  Time heard;                    ///< the last sign of life; after a restart of the scheduler, that moment
  std::optional<std::int64_t> step;
  std::optional<StepTime> step_time;  ///< of its recent steps
  std::string last_error;
};

/// How long to wait for what.
struct Patience {
  std::chrono::milliseconds silence =
      std::chrono::seconds(30);  ///< then a worker is lost, whatever its connection says
  std::chrono::milliseconds absence = std::chrono::minutes(15);  ///< for all workers to come, or come back
  std::chrono::milliseconds hang = std::chrono::minutes(2);      ///< for a worker to notice that its generation is over
};

struct Roll {
  std::string job;  ///< a random name
  int wanted = 1;
  bool recovery = false;
  Patience patience;

  std::int64_t generation = 0;  ///< meetings so far
  std::string store_key;        ///< of this generation
  std::string store_host;       ///< of this generation; empty until rank 0 has told
  int store_port = 0;
  std::vector<Member> members;  ///< in the order in which they came; at most `wanted`
  Time changed;                 ///< when a member came or was lost
  std::optional<Time> broken;   ///< since when a member of this generation is lost, or cannot go on
  std::string last_error;       ///< the first worker's that was lost or failed, with its name
};

/// The member with this id; nullptr when there is none.
const Member* find_member(const Roll& roll, const std::string& node_id);
Member* find_member(Roll& roll, const std::string& node_id);
Member* find_connection(Roll& roll, std::uint64_t connection);

/// "worker 'w3' (rank 3, pid 12 on host h)".
std::string describe(const Member& member);

/// Said that it is done, or that it cannot go on.
bool is_over(const Member& member);

/// How many are there now: connected, and not done.
int count_present(const Roll& roll);

}  // namespace lockstep::scheduler
