// Making new certificates, for users without their own certificate authority.
#pragma once

#include <lockstep/scheduler/certificates.h>

#include <chrono>
#include <string>
#include <vector>

namespace lockstep::scheduler {

struct CertificateWish {
  std::string name;                   ///< its common name
  std::vector<std::string> hosts{};   ///< names and addresses of the machine that will use it
  std::chrono::hours valid_from{-1};  ///< from now; an hour ago, for clocks that differ
  std::chrono::hours valid_until = std::chrono::hours(24 * 365);
};

/// An elliptic key on P-256. Errors are Error(io) with OpenSSL's reason.
Key make_key();

/// A self-signed root that may only sign certificates and revocation lists.
Identity make_authority(const CertificateWish& wish);

/// A certificate for TLS, as a server and as a client.
Identity issue(const Identity& authority, const CertificateWish& wish);

/// PEM of a certificate, and of a key (not encrypted).
std::string print_pem(const X509& certificate);
std::string print_pem(const EVP_PKEY& key);

/// A .p12 file that read_p12() reads; the key in it is encrypted (AES-256) by `password`.
std::string print_p12(const Identity& identity, const X509& authority, const std::string& password);

}  // namespace lockstep::scheduler
