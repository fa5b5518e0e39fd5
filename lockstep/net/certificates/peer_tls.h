// TLS between the processes of one job: each of them listens and connects, and both sides present a certificate.
#pragma once

#include <lockstep/base/environment.h>

#include <memory>

namespace boost::asio::ssl {
class context;
}

namespace lockstep {
struct CertificateSettings;
}

namespace lockstep::net {

/// The two contexts of one process. Both trust the job's authorities and refuse a peer without a certificate from them.
struct PeerTls {
  std::shared_ptr<boost::asio::ssl::context> server;  ///< for connections that this process accepts
  std::shared_ptr<boost::asio::ssl::context> client;  ///< for connections that it makes
};

/// Reads the certificates that the settings name. Error(config) naming the file that cannot be
/// used, and why.
std::shared_ptr<const PeerTls> read_peer_tls(const CertificateSettings& settings);

/// The same for processes that are configured by variables alone, such as launchers: with LOCKSTEP_ENCRYPT=1 the
/// certificates that LOCKSTEP_CLUSTER_CONFIG names, else nullptr.
std::shared_ptr<const PeerTls> find_peer_tls(const Environment& environment);

}  // namespace lockstep::net
