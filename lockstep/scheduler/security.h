// From settings to what protects a connection: secrets read from files, and TLS.
#pragma once

#include <lockstep/scheduler/chore.h>
#include <lockstep/scheduler/tls.h>
#include <lockstep/world/cluster_options.h>

#include <chrono>
#include <memory>
#include <string>

namespace boost::asio::ssl {
class context;
}

namespace lockstep::scheduler {

/// Empty when there is none. Error(io) when its file cannot be read, or is empty.
std::string read_secret(const ClusterSettings& settings);

/// What a worker, or the scheduler, needs for TLS; nullptr with enable_ssl off. Errors: those of read_tls_files() and
/// make_context() (tls.h).
std::shared_ptr<boost::asio::ssl::context> make_client_tls(const ClusterSettings& settings);
std::shared_ptr<boost::asio::ssl::context> make_server_tls(const ClusterSettings& settings);

/// Warns again and again of certificates in `tls` that expire soon; nothing to do where that is nullptr. Errors: those
/// of read_tls_files().
Chore check_of_certificates(const ClusterSettings& settings, TlsSide side,
                            const std::shared_ptr<boost::asio::ssl::context>& tls);

/// Error(environment) for a scheduler that would listen to other machines without TLS, unless that is allowed.
void require_secure(const ClusterSettings& settings);

std::chrono::milliseconds milliseconds_of(double seconds);

}  // namespace lockstep::scheduler
