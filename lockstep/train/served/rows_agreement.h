// The agreement of workers and parameter servers on the step from which they continue, after the rendezvous of a new
// group.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/parameter_servers/server_rows.h>

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::train {

struct RowsAgreement {
  /// The number of completed steps after which all continue, with their state in memory; nullopt: the newest checkpoint
  /// is used.
  std::optional<std::int64_t> step;
  parameter_servers::RowsPlan plan;
};

/// The worker's side, after the workers have agreed: the step that they have in memory, if any. A collective with the
/// servers.
RowsAgreement agree_with_servers(const Group& everyone, int workers, int replicas, std::optional<std::int64_t> step);

/// The server's side. A collective with the workers.
RowsAgreement agree_with_workers(const Group& everyone, int workers, int replicas,
                                 const parameter_servers::ServerMemory& own);

/// Brings the rows of this server, `server` of all, to the step agreed on: undoes the last step, or gets the rows of a
/// lost server from its neighbours. Without such a step `rows` are unchanged, and must then be replaced. A collective
/// of the servers; `rows` have all parts; the parts of a new server are empty.
void follow(const RowsAgreement& agreed, parameter_servers::HeldRows& rows, int server, int servers,
            const Group& everyone);

}  // namespace lockstep::train
