// What a launcher and the status pages of its ranks, or a scheduler and its workers, say about a job at one time: the
// input of the page of a job. Also the request of a page to the launcher.
#pragma once

#include <lockstep/base/status_page.h>
#include <lockstep/membership/membership.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::dashboard {

/// The state of a rank's process, as its launcher or scheduler has it.
enum class ProcessState {
  running,
  lost,    ///< another process is to take its place, or it reconnects
  ended,   ///< well, or because the launcher asked it to
  failed,  ///< and no process takes its place
};

/// The process of a rank.
struct RankProcess {
  int rank = 0;
  std::int64_t pid = 0;
  ProcessState state = ProcessState::running;
  std::string end{};         ///< how it ended: "signal 9 (SIGKILL)"; empty: well, or it runs
  std::string end_before{};  ///< how the process ended whose place it takes; empty: it takes no place
  std::filesystem::path status_file{};
  std::string host{};  ///< empty: that of the job
  std::string life{};  ///< differs between processes that have the place with one pid, as in containers
  std::optional<std::vector<std::string>> lines{};  ///< the last lines of its output; nullopt: the same as before
};

/// The processes of a job's ranks. The first report of a round has the lines of all of them.
struct JobReport {
  int round = 1;  ///< one start of all ranks, from 1
  int world = 1;  ///< ranks of the job, those of other hosts included
  int hosts = 1;
  std::vector<RankProcess> ranks{};
  std::vector<std::string> decisions{};  ///< of the launcher since the last report: "rank 2 is not replaced: ..."
};

/// A rank's process, and what this machine knows of it.
struct RankFacts {
  RankProcess process;
  std::optional<RankProgress> progress{};  ///< nullopt: it has no status page
  TrainingProgress training{};
  std::optional<std::uint64_t> memory{};  ///< resident, in bytes
  std::optional<double> silent{};         ///< seconds since its last report, where that is long ago
};

struct JobFacts {
  double at = 0;  ///< seconds since the start of the job
  int round = 1;
  int world = 1;
  int hosts = 1;
  std::vector<RankFacts> ranks{};
  std::vector<std::string> decisions{};
  std::optional<int> generation{};  ///< as a scheduler counts
};

/// A page asks to kill a rank.
struct KillRequest {
  std::uint64_t page = 0;  ///< the connection that gets the answer
  int rank = 0;
  std::int64_t pid = 0;  ///< of the process that the page shows
};

/// Reads the status pages and the memory of the processes now. `at`: seconds since the start of the job. Costs about
/// 1 ms for each rank.
JobFacts look_at(JobReport report, double at);

/// What a scheduler has of the members that have ranks: those of its workers with Hello::watched. Without `at`.
JobFacts look_at(const membership::Membership& membership, membership::Time now);

}  // namespace lockstep::dashboard
