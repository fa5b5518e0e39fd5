// TLS contexts (TLS 1.2 or newer) and the secret of connections, made from the settings of a cluster, where both sides
// have a certificate; and contexts of other clients, from PEM files or texts.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/net/certificates/tls_files.h>
#include <lockstep/world/cluster_settings.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace boost::asio {
class io_context;
}
namespace boost::asio::ssl {
class context;
}

namespace lockstep::net {

/// The side of a connection: the scheduler listens, workers connect.
enum class TlsSide { server, client };

/// A TLS context. Reads the certificate of that side, the authorities and the revocation list. OpenSSL's security level
/// is 3: keys of 128 bits of security (EC P-256, RSA 3072), no SHA-1. Warns of files that expire soon. Error(config)
/// naming the file that cannot be used, and why: a certificate for another use, an expired revocation list.
std::shared_ptr<boost::asio::ssl::context> make_context(TlsSide side, const CertificateFiles& files,
                                                        const std::string& password);

/// The same, where `read` returns the bytes of a file; nullopt: no such file.
using ReadBytes = std::function<std::optional<std::string>(const std::string& file)>;
std::shared_ptr<boost::asio::ssl::context> make_context(TlsSide side, const CertificateFiles& files,
                                                        const std::string& password, const ReadBytes& read);

/// Warns where the certificate in `context`, or one of its authorities, expires within files.warning_days. Peers see
/// this certificate: a renewed file has effect when the process starts again.
void warn_of_expiry(boost::asio::ssl::context& context, TlsSide side, const CertificateFiles& files);

/// The shared secret; empty without one. Error(io) when its file cannot be read, or is empty.
std::string read_secret(const ClusterSettings& settings);

struct PeriodicTask {
  std::chrono::milliseconds interval{};  ///< the pause before each call
  std::function<void()> call{};          ///< throws nothing; empty: no task
};

/// Runs the task periodically, on the thread that runs `context`, until that stops.
void run_periodically(boost::asio::io_context& context, PeriodicTask task);

/// TLS according to the settings. All fields are empty with enable_ssl off.
struct Tls {
  std::shared_ptr<boost::asio::ssl::context> context = nullptr;
  PeriodicTask check_of_certificates{};  ///< warns repeatedly of certificates in `context` that expire soon
  int connections = 0;                   ///< the limit for connections that the scheduler accepts
};

/// TLS of a worker, and of the scheduler. Errors: those of read_tls_files() and make_context().
Tls make_member_tls(const ClusterSettings& settings);
Tls make_service_tls(const ClusterSettings& settings);

/// Error(environment) for a scheduler that would listen for other machines without TLS, unless that is allowed.
void require_secure(const ClusterSettings& settings);

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

/// PEM files; empty ones are not used. Errors name them as the settings of etcd clients: ca_cert, ssl_cert and
/// ssl_cert_key.
struct TlsFiles {
  std::string authorities;  ///< CAs that may have signed the server's certificate; empty: the system's
  std::string certificate;  ///< this client's, where the server requests one
  std::string key;          ///< that certificate's private key

  bool operator==(const TlsFiles&) const = default;
};

/// TLS 1.2 or newer; the server's certificate is required and verified. Error(io) naming the file that cannot be used.
std::shared_ptr<boost::asio::ssl::context> make_client_tls(const TlsFiles& files);

/// PEM texts; empty ones are not used.
struct TlsTexts {
  std::string authorities;  ///< CAs that may have signed the server's certificate; empty: the system's
  std::string certificate;  ///< this client's, with its chain
  std::string key;          ///< that certificate's private key
  bool verify = true;       ///< false: accepts any certificate, which protects only from passive listeners
};

/// The same from texts. Error(config) naming the text that cannot be used.
std::shared_ptr<boost::asio::ssl::context> make_client_tls_from_texts(const TlsTexts& texts);

}  // namespace lockstep::net
