// Keys, certificates and revocation lists as OpenSSL handles: reading them from bytes, and making new ones, for users
// without their own certificate authority, with the folder of them that `lockstep certs init` makes.
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::net {

template <auto Free>
struct FreeBy {
  template <typename T>
  void operator()(T* value) const noexcept {
    Free(value);
  }
};
using PrivateKey = std::unique_ptr<EVP_PKEY, FreeBy<::EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, FreeBy<::X509_free>>;
using RevocationList = std::unique_ptr<X509_CRL, FreeBy<::X509_CRL_free>>;

struct Identity {
  PrivateKey key;
  Certificate certificate;
  std::vector<Certificate> chain;  ///< the authorities between it and the root
};

/// The content of a .p12 file. Errors are Error(io) without the file's name: a wrong password, or not a .p12 file.
Identity read_p12(std::string_view bytes, const std::string& password);

/// The certificates, or revocation lists, in a PEM file; at least one.
std::vector<Certificate> read_certificates(std::string_view pem);
std::vector<RevocationList> read_revocation_lists(std::string_view pem);

/// The time until a certificate expires; negative when it has. nullopt when it has no such date.
std::optional<std::chrono::hours> time_left(const X509& certificate);

/// "/CN=node1", for messages.
std::string subject_of(const X509& certificate);

/// OpenSSL's last error, in words; clears its error queue.
std::string openssl_reason();

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
