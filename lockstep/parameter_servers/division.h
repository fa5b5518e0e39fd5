// The division of a job's ranks into workers, which train, and parameter servers, which have the tables.
#pragma once

#include <lockstep/comm/group.h>

#include <optional>
#include <vector>

namespace lockstep::parameter_servers {

/// The last ranks of a job are its servers: of W + S ranks, server s is rank W + s.
struct Division {
  int workers = 0;
  int servers = 0;
  /// Of the workers, in the order of their ranks; nullopt on servers.
  std::optional<Group> group;
  /// A group of two for each connection, worker first: on a worker by server, on a server by worker.
  std::vector<Group> pairs;
};

/// Creates the groups of two for messages between servers and workers: shared memory on one host, else the backend of
/// `all`. A collective of all ranks. Error(config) when no worker is left.
Division divide(const Group& all, int servers);

}  // namespace lockstep::parameter_servers
