// The agreement of workers and parameter servers on the step that they go on from, when a new group has met.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/parameter_servers/held_rows.h>

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::train {

struct RowsAgreement {
  /// The completed steps that all go on after, with what they have in memory; nullopt: the newest checkpoint counts.
  std::optional<std::int64_t> step;
  parameter_servers::RowsPlan plan;
};

/// Of a worker, after the workers have agreed: the step that they have in memory, if any. A collective with the
/// servers.
RowsAgreement agree_with_servers(const Group& everyone, int workers, int replicas, std::optional<std::int64_t> step);

/// Of a server. A collective with the workers.
RowsAgreement agree_with_workers(const Group& everyone, int workers, int replicas,
                                 const parameter_servers::ServerMemory& own);

/// Brings the rows of this server, `server` of all, to the step agreed on: takes the last step back, or gets those of
/// a lost server from the servers beside it. Without such a step `rows` stay, which are then to be replaced. A
/// collective of the servers; `rows` have all parts, those of a new server without rows.
void follow(const RowsAgreement& agreed, parameter_servers::HeldRows& rows, int server, int servers,
            const Group& everyone);

}  // namespace lockstep::train
