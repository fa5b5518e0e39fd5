// The certificates of one job, as a Secret.
#pragma once

#include <apps/operator/job/job.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::kube {

/// A Secret with a new authority's certificate, server.p12, client.p12, their password, and the config.json that names
/// them (docs/scheduler.md). The authority's key is discarded, because it signs nothing else.
nlohmann::json make_certificate_secret(const Job& job, const std::string& name, const std::vector<std::string>& hosts);

}  // namespace lockstep::kube
