// New certificates, for people who have no authority of their own.
#pragma once

#include <lockstep/scheduler/certificates.h>

#include <chrono>
#include <string>
#include <vector>

namespace lockstep::scheduler {

struct CertificateWish {
  std::string name;                   ///< its common name
  std::vector<std::string> hosts{};   ///< names and addresses of the machine that will show it
  std::chrono::hours valid_from{-1};  ///< from now; an hour ago, for clocks that go wrong
  std::chrono::hours valid_until = std::chrono::hours(24 * 365);
};

/// An elliptic key on P-256. Errors are Error(io) with OpenSSL's reason.
Key make_key();

/// A root that signs certificates and revocation lists, and nothing else; it signs itself.
Identity make_authority(const CertificateWish& wish);

/// A certificate for TLS, as a server and as a client.
Identity issue(const Identity& authority, const CertificateWish& wish);

/// PEM of a certificate, and of a key (not encrypted).
std::string print_pem(const X509& certificate);
std::string print_pem(const EVP_PKEY& key);

/// A .p12 file that read_p12() reads; the key in it is encrypted (AES-256) by `password`.
std::string print_p12(const Identity& identity, const X509& authority, const std::string& password);

}  // namespace lockstep::scheduler
