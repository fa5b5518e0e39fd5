// What `lockstep certs init` leaves: an authority, and for each node all that it needs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::scheduler {

/// Makes
///
///     FOLDER/ca.crt              whom all nodes trust
///     FOLDER/ca.key              signs certificates: keep it off the nodes
///     FOLDER/NODE/server.p12     for the scheduler on that node
///     FOLDER/NODE/client.p12     for workers on it
///     FOLDER/NODE/password       of both
///     FOLDER/NODE/ca.crt
///     FOLDER/NODE/config.json    names them: cluster.config_file_path
///
/// A node is a name or an address, by which others reach the scheduler there; its certificates are also good for what
/// else is given for it. Files with secrets are for their owner alone. Error(invalid_argument) for a bad name or a
/// folder that holds an authority already, Error(io) when a file cannot be written.
void init_certificates(const std::filesystem::path& folder, const std::vector<std::string>& nodes, int days);

}  // namespace lockstep::scheduler
