// The status of the service of launchers: the document of GET /v1/status at their endpoint (docs/surviving.md has its
// schema), and its table.
#pragma once

#include <lockstep/cluster/elastic/node_service.h>

#include <string>

namespace lockstep::cluster::elastic {

/// The document. `version`: of Lockstep. `started`: the service.
std::string status_json(const NodeServiceState& service, const std::string& version, Time started, Time now);

/// Whether a document is that of a service of launchers.
bool is_of_launchers(const std::string& json);

/// The same as a readable table. Error(data) when `json` is no such document.
std::string status_table(const std::string& json);

}  // namespace lockstep::cluster::elastic
