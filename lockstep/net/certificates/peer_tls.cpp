// The pair of TLS contexts, server and client, with which ranks and launchers encrypt (LOCKSTEP_ENCRYPT).
#include <lockstep/base/error.h>
#include <lockstep/net/certificates/connection_security.h>
#include <lockstep/net/certificates/peer_tls.h>

namespace lockstep::net {

std::shared_ptr<const PeerTls> read_peer_tls(const CertificateSettings& certificates) {
  if (certificates.config_file.empty()) {
    fail(
        ErrorKind::environment, "connect",
        "encryption is on (parallel.encrypt, LOCKSTEP_ENCRYPT, or backend tls), and there are no certificates: set "
        "cluster.config_file_path (LOCKSTEP_CLUSTER_CONFIG) to the JSON file that names them; 'lockstep certs init DIR "
        "--nodes HOST,...' makes one for each host");
  }
  ClusterSettings settings;
  settings.enable_ssl = true;
  settings.config_file = certificates.config_file;
  settings.server_password = certificates.server_password;
  settings.client_password = certificates.client_password;
  return std::make_shared<const PeerTls>(
      PeerTls{make_service_tls(settings).context, make_member_tls(settings).context});
}

std::shared_ptr<const PeerTls> find_peer_tls(const Environment& environment) {
  if (find_integer(environment, "LOCKSTEP_ENCRYPT", 0, 1) != 1) return nullptr;
  return read_peer_tls(find_certificates(environment, {}));
}

}  // namespace lockstep::net
