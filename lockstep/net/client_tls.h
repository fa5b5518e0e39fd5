// TLS of a client that is configured with PEM files.
#pragma once

#include <memory>
#include <string>

namespace boost::asio::ssl {
class context;
}

namespace lockstep::net {

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
