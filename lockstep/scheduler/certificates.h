// Certificates as OpenSSL holds them: reading them from bytes, and making new ones.
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::scheduler {

template <auto Free>
struct FreeBy {
  template <typename T>
  void operator()(T* value) const noexcept {
    Free(value);
  }
};
using Key = std::unique_ptr<EVP_PKEY, FreeBy<::EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, FreeBy<::X509_free>>;
using RevocationList = std::unique_ptr<X509_CRL, FreeBy<::X509_CRL_free>>;

struct Identity {
  Key key;
  Certificate certificate;
  std::vector<Certificate> chain;  ///< of authorities between it and the root
};

/// What a .p12 file holds. Errors are Error(io) without the file's name: a wrong password, or what is no such file.
Identity read_p12(std::string_view bytes, const std::string& password);

/// The certificates, or revocation lists, in a PEM file; at least one.
std::vector<Certificate> read_certificates(std::string_view pem);
std::vector<RevocationList> read_revocation_lists(std::string_view pem);

/// How long until a certificate expires; negative when it has. nullopt when it does not say.
std::optional<std::chrono::hours> time_left(const X509& certificate);

/// "/CN=node1", for messages.
std::string subject_of(const X509& certificate);

/// What OpenSSL complained about last, in words; clears its list of complaints.
std::string openssl_reason();

}  // namespace lockstep::scheduler
