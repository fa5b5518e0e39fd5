// What a launcher's loop reports of its ranks while they run, for people who look at the job, and what these ask of it.
#pragma once

#include <lockstep/dashboard/job_facts.h>

#include <functional>
#include <optional>
#include <string>

namespace lockstep::cluster {

class LogFolder;
struct LaunchResult;

/// All functions are called on the launcher's thread and do not block. Without `report` the loop does nothing for it.
struct Watching {
  int round = 1;  ///< the start of all ranks, from 1
  /// Called about once a second, and when a rank has ended or was replaced.
  std::function<void(dashboard::JobReport)> report{};
  int requests_fd = -1;  ///< readable while there is a request; -1: there are none
  std::function<std::optional<dashboard::KillRequest>()> take_request{};
  std::function<void(const dashboard::KillRequest&, bool ok, const std::string& text)> answer{};
  /// The job has ended, and this is its result. The last call; may take half a second.
  std::function<void(const LaunchResult&, const LogFolder&)> ended{};
};

}  // namespace lockstep::cluster
