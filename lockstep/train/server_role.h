// A process of a run as one of its parameter servers.
#pragma once

#include <lockstep/base/injected_fault.h>
#include <lockstep/comm/group.h>
#include <lockstep/parameter_servers/server.h>
#include <lockstep/parameter_servers/server_rows.h>
#include <lockstep/train/program.h>
#include <lockstep/train/resolved_run.h>

#include <optional>

namespace lockstep::train {

/// Error(config) where `lockstep run --servers` has started parameter servers for another parallel.mode.
void require_mode_of_servers(const ResolvedRun& config);

/// The number of a job's processes that are parameter servers: LOCKSTEP_SERVERS, which `lockstep run --servers` sets,
/// else MS_SERVER_NUM or cluster.server_num. Without servers, each worker has the tables in its own memory, with the
/// same result. Error of require_mode_of_servers.
int count_of_servers(const ResolvedRun& config);

/// The state that a server keeps while the job has no group.
struct KeptRows {
  std::optional<parameter_servers::HeldRows> rows;
  std::optional<InjectedFault> fault = find_injected_fault(current_environment());  ///< not triggered yet
};

/// Serves the run's tables until its workers have finished, with the rows that it has kept, or those of the checkpoint
/// from which the workers continue; takes part in their saves. Returns the signal that ended the run early, if there
/// was one. Errors of parameter_servers::serve, TableRules and find_resume_point; after an error `kept` has the rows
/// after the last complete step.
std::optional<int> serve_run(const ResolvedRun& config, const Program& program,
                             const parameter_servers::Division& division, const Group& everyone, KeptRows& kept);

}  // namespace lockstep::train
