// Making new certificates, for users without their own certificate authority, and the folder of them that
// `lockstep certs init` makes.
#pragma once

#include <lockstep/net/certificates/certificates.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::net {

/// The contents of a certificate.
struct CertificateWish {
  std::string name;                   ///< its common name
  std::vector<std::string> hosts{};   ///< names and addresses of the machine that will use it
  std::chrono::hours valid_from{-1};  ///< relative to now; an hour ago, for clocks that differ
  std::chrono::hours valid_until = std::chrono::hours(24 * 365);
};

/// An elliptic key on P-256. Errors are Error(io) with OpenSSL's reason.
PrivateKey make_key();

/// A self-signed root that may only sign certificates and revocation lists.
Identity make_authority(const CertificateWish& wish);

/// A certificate for TLS, as a server and as a client.
Identity issue(const Identity& authority, const CertificateWish& wish);

/// PEM of a certificate, and of a key (not encrypted).
std::string print_pem(const X509& certificate);
std::string print_pem(const EVP_PKEY& key);

/// A .p12 file that read_p12() reads; the key in it is encrypted (AES-256) by `password`.
std::string print_p12(const Identity& identity, const X509& authority, const std::string& password);

/// The text of a config.json beside server.p12, client.p12, password and ca.crt: cluster.config_file_path.
std::string certificate_config();

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
/// A node is a name or an address at which other nodes reach the scheduler there; its certificates are also valid for
/// its other given names. Only the owner may read files with secrets. Error(invalid_argument) for a bad name or a
/// folder that holds an authority already, Error(io) when a file cannot be written.
void init_certificates(const std::filesystem::path& folder, const std::vector<std::string>& nodes, int days);

}  // namespace lockstep::net
