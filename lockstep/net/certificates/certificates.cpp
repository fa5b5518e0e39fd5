// Readers of PKCS#12 identities, PEM certificates and revocation lists, and their subjects and expiry.
#include <lockstep/base/error.h>
#include <lockstep/net/certificates/certificates.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>

#include <algorithm>
#include <array>

namespace lockstep::net {
namespace {

using Bio = std::unique_ptr<BIO, FreeBy<::BIO_free>>;
using Pkcs12 = std::unique_ptr<PKCS12, FreeBy<::PKCS12_free>>;

constexpr std::size_t kLongest = std::size_t{16} << 20;

Bio bytes_as_bio(std::string_view bytes) {
  if (bytes.size() > kLongest) fail(ErrorKind::io, "certificates", "{} bytes are too many", bytes.size());
  ::ERR_clear_error();
  return Bio(::BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())));
}

// The certificates of a stack. Takes ownership of it and of its elements.
std::vector<Certificate> take_all(STACK_OF(X509) * stack) {
  std::vector<Certificate> certificates;
  certificates.reserve(static_cast<std::size_t>(std::max(0, sk_X509_num(stack))));
  for (int i = 0; i < sk_X509_num(stack); ++i) certificates.emplace_back(sk_X509_value(stack, i));
  sk_X509_free(stack);
  return certificates;
}

// The password callback for PEM files: fails instead of asking at the terminal.
int no_password(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*unused*/) { return -1; }

}  // namespace

std::string openssl_reason() {
  const unsigned long code = ::ERR_peek_last_error();
  ::ERR_clear_error();
  const char* text = code == 0 ? nullptr : ::ERR_reason_error_string(code);
  return text == nullptr ? "unknown reason" : text;
}

Identity read_p12(std::string_view bytes, const std::string& password) {
  const Bio bio = bytes_as_bio(bytes);
  const Pkcs12 p12(::d2i_PKCS12_bio(bio.get(), nullptr));
  if (!p12) fail(ErrorKind::io, "certificates", "it is not a .p12 file ({})", openssl_reason());
  if (::PKCS12_verify_mac(p12.get(), password.c_str(), static_cast<int>(password.size())) != 1) {
    ::ERR_clear_error();
    fail(ErrorKind::io, "certificates", "the password is wrong, or the file is damaged");
  }
  EVP_PKEY* key = nullptr;
  X509* certificate = nullptr;
  STACK_OF(X509)* chain = nullptr;
  const bool read = ::PKCS12_parse(p12.get(), password.c_str(), &key, &certificate, &chain) == 1;
  Identity identity{PrivateKey(key), Certificate(certificate),
                    chain == nullptr ? std::vector<Certificate>{} : take_all(chain)};
  if (!read) fail(ErrorKind::io, "certificates", "it cannot be decrypted ({})", openssl_reason());
  if (!identity.key || !identity.certificate) {
    fail(ErrorKind::io, "certificates", "it holds no key with its certificate");
  }
  return identity;
}

std::vector<Certificate> read_certificates(std::string_view pem) {
  const Bio bio = bytes_as_bio(pem);
  std::vector<Certificate> certificates;
  while (auto* one = ::PEM_read_bio_X509(bio.get(), nullptr, no_password, nullptr)) certificates.emplace_back(one);
  const auto reason = openssl_reason();
  if (certificates.empty()) fail(ErrorKind::io, "certificates", "it holds no certificate in PEM ({})", reason);
  return certificates;
}

std::vector<RevocationList> read_revocation_lists(std::string_view pem) {
  const Bio bio = bytes_as_bio(pem);
  std::vector<RevocationList> lists;
  while (auto* one = ::PEM_read_bio_X509_CRL(bio.get(), nullptr, no_password, nullptr)) lists.emplace_back(one);
  const auto reason = openssl_reason();
  if (lists.empty()) fail(ErrorKind::io, "certificates", "it holds no revocation list in PEM ({})", reason);
  return lists;
}

std::optional<std::chrono::hours> time_left(const X509& certificate) {
  int days = 0;
  int seconds = 0;
  if (::ASN1_TIME_diff(&days, &seconds, nullptr, ::X509_get0_notAfter(&certificate)) != 1) return std::nullopt;
  return std::chrono::hours(24 * days + seconds / 3600 - (seconds < 0 ? 1 : 0));
}

std::string subject_of(const X509& certificate) {
  std::array<char, 256> text{};
  ::X509_NAME_oneline(::X509_get_subject_name(&certificate), text.data(), static_cast<int>(text.size()));
  return text.data();
}

}  // namespace lockstep::net
