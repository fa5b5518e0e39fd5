// OpenSSL handles of keys, certificates and revocation lists, and reading them from bytes.
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <chrono>
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

}  // namespace lockstep::net
