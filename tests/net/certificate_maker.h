// Authorities and certificates of a test, in a folder of its own.
#pragma once

#include <lockstep/base/temporary_folder.h>
#include <lockstep/net/certificates/certificates.h>
#include <lockstep/net/tls_contexts.h>

#include <memory>
#include <string>
#include <vector>

namespace lockstep::test {

/// An authority, and what it signs.
class Authority {
 public:
  Authority();

  const net::Identity& identity() const { return identity_; }

  /// For this machine, unless told.
  net::Identity issue(const std::string& name, std::vector<std::string> hosts = {"127.0.0.1", "localhost"},
                      std::chrono::hours valid_until = std::chrono::hours(24 * 365)) const;

  /// PEM of a list of revoked certificates, in force from an hour ago until then, counted from now.
  std::string revoke(const std::vector<const X509*>& certificates,
                     std::chrono::seconds until = std::chrono::hours(1)) const;

 private:
  net::Identity identity_;
};

/// A node: its certificate, whom it trusts and whom not.
struct NodeFiles {
  net::CertificateFiles files;
  std::string password;

  std::shared_ptr<boost::asio::ssl::context> server() const;
  std::shared_ptr<boost::asio::ssl::context> client() const;
};

/// Writes them into a folder.
NodeFiles write_node(const TemporaryFolder& folder, const net::Identity& identity, const Authority& trusted,
                     const std::string& revoked = "");

}  // namespace lockstep::test
