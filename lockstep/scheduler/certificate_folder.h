// The folder that `lockstep certs init` makes: an authority, and the certificates and keys of each node.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::scheduler {

/// Makes
///
///     FOLDER/ca.crt              the authority that all nodes trust
///     FOLDER/ca.key              signs certificates: keep it off the nodes
///     FOLDER/NODE/server.p12     for the scheduler on that node
///     FOLDER/NODE/client.p12     for workers on it
///     FOLDER/NODE/password       of both
///     FOLDER/NODE/ca.crt
///     FOLDER/NODE/config.json    names these files: cluster.config_file_path
///
/// A node is a name or an address by which others reach the scheduler there; its certificates are also valid for its
/// other given names. Only the owner may read files with secrets. Error(invalid_argument) for a bad name or a
/// folder that holds an authority already, Error(io) when a file cannot be written.
void init_certificates(const std::filesystem::path& folder, const std::vector<std::string>& nodes, int days);

}  // namespace lockstep::scheduler
