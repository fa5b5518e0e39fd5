// The protection of connections, made from the settings: secrets read from files, and TLS.
#pragma once

#include <lockstep/scheduler/periodic_task.h>
#include <lockstep/scheduler/tls.h>
#include <lockstep/world/cluster_settings.h>

#include <chrono>
#include <memory>
#include <string>

namespace boost::asio::ssl {
class context;
}

namespace lockstep::scheduler {

/// The shared secret; empty when there is none. Error(io) when its file cannot be read, or is empty.
std::string read_secret(const ClusterSettings& settings);

/// TLS according to the settings. All fields are empty with enable_ssl off.
struct Tls {
  std::shared_ptr<boost::asio::ssl::context> context = nullptr;
  PeriodicTask check_of_certificates{};  ///< warns again and again of certificates in `context` that expire soon
  int connections = 0;                   ///< most connections that the scheduler accepts
};

/// TLS of a worker, and of the scheduler. Errors: those of read_tls_files() and make_context() (tls.h).
Tls make_client_tls(const ClusterSettings& settings);
Tls make_server_tls(const ClusterSettings& settings);

/// Error(environment) for a scheduler that would listen to other machines without TLS, unless that is allowed.
void require_secure(const ClusterSettings& settings);

std::chrono::milliseconds milliseconds_of(double seconds);

}  // namespace lockstep::scheduler
