// One simulated life of a job: the real state machines of the service and of its workers, over a simulated clock,
// network and disk, with faults. One seed decides everything.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>

namespace lockstep::simulation {

/// The kinds of faults, each on or off for a whole life.
enum class Fault {
  kill_worker,    ///< SIGKILL; its launcher starts another process
  kill_service,   ///< SIGKILL; another one starts with the saved state
  pause_worker,   ///< SIGSTOP, then SIGCONT
  pause_service,  ///< the same, of the service
  cut,            ///< a connection is reset
  part,           ///< a worker's host is cut off from the service, in one direction or both, and comes back
  hang,           ///< a worker's training thread stands still, while its session answers
  twin,           ///< a second process with the node id of a living one
  stranger,       ///< a process of another job, secret or version, or one that sends nothing
  slow_disk,      ///< the disk needs seconds
  lost_host,      ///< a worker's host disappears without a word; another process starts elsewhere
  clock_jump,     ///< the clock of the service's host jumps forward, as in a virtual machine that was suspended
};
inline constexpr int kFaults = 12;
const char* name(Fault fault);

struct Outcome {
  std::string violation;  ///< what must never happen, with the time; empty: nothing did
  std::string end;        ///< "completed", or why the job was given up
  std::uint64_t events = 0;
  std::uint64_t digest = 0;                       ///< of all inputs and outputs, to compare two runs of a seed
  std::map<std::string, std::uint64_t> faults{};  ///< by their names
};

/// `trace`: nullptr, or where the life is written as a readable sequence.
Outcome live(std::uint64_t seed, std::ostream* trace);

}  // namespace lockstep::simulation
