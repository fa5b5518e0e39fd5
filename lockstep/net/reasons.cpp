// A translation of Asio, Beast and OpenSSL errors (alerts, certificate verification) into reasons with a remedy.
#include <lockstep/base/error.h>
#include <lockstep/net/reasons.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <array>
#include <ctime>
#include <memory>

#include <boost/asio/error.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/websocket/error.hpp>

namespace lockstep::net {
namespace {

namespace asio = boost::asio;

/// " (it was valid until ...)", if the validity period is why the certificate was rejected; else empty.
std::string about_time(const X509* certificate) {
  if (certificate == nullptr) return "";
  const auto* from = ::X509_get0_notBefore(certificate);
  const auto* until = ::X509_get0_notAfter(certificate);
  if (::X509_cmp_current_time(from) > 0) return " (it is valid from " + time_text(*from) + " on)";
  if (::X509_cmp_current_time(until) < 0) return " (it was valid until " + time_text(*until) + ")";
  return "";
}

/// A hint that asks the user whether the peer uses TLS.
std::string about_no_tls(const TlsTerms& terms) {
  return terms.by_lockstep ? "check that it has " + terms.switched_on_by : "check that TLS is on there";
}

std::string about_purpose(const TlsTerms& terms) {
  return terms.by_lockstep
             ? "extendedKeyUsage must be serverAuth for the scheduler, clientAuth for a worker ('lockstep "
               "certs init' makes both)"
             : "extendedKeyUsage must be serverAuth for a server, clientAuth for a client";
}

std::string about_same_name(const TlsTerms& terms) {
  return terms.by_lockstep ? "; both sides need files of one authority (one 'lockstep certs init' for all nodes)" : "";
}

std::string about_certificate(SSL* tls, const TlsTerms& terms) {
  const long result = ::SSL_get_verify_result(tls);
  if (result == X509_V_OK) return "its certificate was refused";
  const std::string text = ::X509_verify_cert_error_string(result);
  // SSL_get_peer_certificate() returns only a certificate that passed verification. This chain begins with the
  // certificate that the peer sent.
  const auto* chain = ::SSL_get0_verified_chain(tls);
  const std::string when = about_time(chain != nullptr ? sk_X509_value(chain, 0) : nullptr);
  switch (result) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return when.empty()
                 ? "the certificate of an authority in its chain, or in " + terms.authorities + " here, has expired"
                 : "its certificate has expired" + when + "; it needs a new one";
    case X509_V_ERR_CERT_NOT_YET_VALID: return "its certificate is not valid yet" + when + "; compare the clocks";
    case X509_V_ERR_CERT_REVOKED: return "its certificate is revoked";
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return "its certificate is by another authority, of the same name as the one in " + terms.authorities + " here" +
             about_same_name(terms);
    case X509_V_ERR_INVALID_PURPOSE: return "its certificate is not for this use: " + about_purpose(terms);
    case X509_V_ERR_INVALID_CA:
    case X509_V_ERR_KEYUSAGE_NO_CERTSIGN:
      return "the signer of its certificate is no authority: it may not sign certificates (" + text + ")";
    case X509_V_ERR_CRL_NOT_YET_VALID:
      return "the revocation list in crl_path here is not valid yet; compare the clocks";
    case X509_V_ERR_CRL_SIGNATURE_FAILURE:
      return "the revocation list in crl_path here is by another authority of the same name";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH: return "its certificate is for another host name (" + text + ")";
    case X509_V_ERR_UNABLE_TO_GET_CRL: return "no revocation list in crl_path is by the authority that signed it";
    case X509_V_ERR_CRL_HAS_EXPIRED:
      return "the revocation list in crl_path here has expired; its authority must make a new one";
    case X509_V_ERR_EE_KEY_TOO_SMALL:
    case X509_V_ERR_CA_KEY_TOO_SMALL: return "a key is too short: use EC P-256 or RSA with 3072 bits (" + text + ")";
    default: return "its certificate is not by an authority in " + terms.authorities + " (" + text + ")";
  }
}

// The reason behind a TLS alert of the peer. OpenSSL sends "expired" also for an expired revocation list, and "bad" for
// a certificate that is not valid yet.
std::string about_alert(int alert, const std::string& text, SSL* tls, const TlsTerms& terms) {
  const std::string when = about_time(::SSL_get_certificate(tls));
  constexpr auto wants_one = "it requires a certificate, and this side sent none";
  switch (alert) {
    case SSL3_AD_BAD_CERTIFICATE:
      if (::SSL_get_certificate(tls) == nullptr) return wants_one;
      return "it refused the certificate of this side" +
             (when.empty() ? " (" + text + "); its log has the reason" : when);
    case SSL3_AD_UNSUPPORTED_CERTIFICATE:
      return "it refused the certificate of this side, which is not for this use: " + about_purpose(terms);
    case SSL3_AD_CERTIFICATE_REVOKED: return "it reports that the certificate of this side is revoked";
    case SSL3_AD_CERTIFICATE_EXPIRED:
      return when.empty()
                 ? "it reports that something has expired, and the certificate of this side is valid: the revocation "
                   "list" +
                       std::string(terms.by_lockstep ? " (crl_path) or an authority (ca_cert_path)"
                                                     : " or an authority") +
                       " of that side has expired, or its clock is wrong"
                 : "it reports that the certificate of this side has expired" + when + "; this side needs a new one";
    case TLS1_AD_DECRYPT_ERROR:
      return "it cannot verify the certificate of this side, which is by another authority, of the same name as the "
             "one " +
             std::string(terms.by_lockstep ? "in ca_cert_path there" : "that it trusts") + about_same_name(terms);
    case TLS1_AD_UNKNOWN_CA: return "it does not trust the authority that signed the certificate of this side";
    case TLS13_AD_CERTIFICATE_REQUIRED: return wants_one;
    case TLS1_AD_PROTOCOL_VERSION: return "no version of TLS suits both sides (" + text + ")";
    case SSL3_AD_HANDSHAKE_FAILURE: return "it found no cipher or certificate that suits both sides (" + text + ")";
    default: return "it ended the TLS handshake (" + text + ")";
  }
}

std::string about_tls(unsigned long code, SSL* tls, const TlsTerms& terms) {
  const char* words = ::ERR_reason_error_string(code);
  const std::string text = words != nullptr ? words : "error " + std::to_string(code);
  const int reason = ERR_GET_REASON(code);
  // The first error in the queue may be about the bytes of a signature; the failed verification of the certificate is
  // the cause.
  if (::SSL_get_verify_result(tls) != X509_V_OK) return about_certificate(tls, terms);
  if (ERR_GET_LIB(code) != ERR_LIB_SSL) return "TLS failed (" + text + ")";
  if (reason > SSL_AD_REASON_OFFSET) return about_alert(reason - SSL_AD_REASON_OFFSET, text, tls, terms);
  switch (reason) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED: return about_certificate(tls, terms);
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE: return "it sent no certificate";
    case SSL_R_NO_SHARED_CIPHER: return "it offers no cipher that is allowed here (weak cipher)";
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_WRONG_SSL_VERSION: return "it does not support TLS 1.2 or newer (" + text + ")";
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_WRONG_VERSION_NUMBER: return "it does not use TLS; " + about_no_tls(terms);
    default: return "TLS failed (" + text + ")";
  }
}

}  // namespace

std::string time_text(const ASN1_TIME& time) {
  std::tm parts{};
  std::array<char, 32> text{};
  if (::ASN1_TIME_to_tm(&time, &parts) != 1) return "an unknown time";
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts)};
}

std::string reason_of(const boost::system::error_code& error, SSL* tls, const TlsTerms& terms) {
  const bool closed = error == asio::error::eof || error == asio::error::connection_reset ||
                      error == asio::error::broken_pipe || error == asio::ssl::error::stream_truncated ||
                      error == boost::beast::http::error::end_of_stream ||
                      error == boost::beast::http::error::partial_message;
  if (closed && tls != nullptr && ::SSL_is_init_finished(tls) == 0) {
    return "it closed the connection in the middle of the TLS handshake; " + about_no_tls(terms);
  }
  if (closed) return "it closed the connection";
  if (error == boost::beast::websocket::error::closed) return "it ended the session";
  if (error == boost::beast::websocket::error::message_too_big) return "it sent a message above the limit";
  if (error == boost::beast::websocket::error::upgrade_declined)
    return "it refused the session; check that it has " + terms.switched_on_by + " and is no other program";
  if (error == boost::beast::http::error::header_limit || error == boost::beast::http::error::body_limit ||
      error == boost::beast::http::error::buffer_overflow) {
    return "it sent a request above the limit";
  }
  if (is_no_http(error)) return "it does not use HTTP: " + error.message();
  if (tls != nullptr && error.category() == asio::error::get_ssl_category()) {
    return about_tls(static_cast<unsigned long>(error.value()), tls, terms);
  }
  return error.message();
}

bool is_no_http(const boost::system::error_code& error) {
  namespace http = boost::beast::http;
  if (error == http::error::end_of_stream || error == http::error::partial_message) return false;
  if (error == boost::beast::websocket::error::upgrade_declined) return true;
  return error.category() == make_error_code(http::error::bad_version).category();
}

bool is_refusal(const boost::system::error_code& error) { return error.category() == asio::error::get_ssl_category(); }

void expect_host(SSL* tls, const std::string& host) {
  boost::system::error_code is_name;
  asio::ip::make_address(host, is_name);
  auto* wanted = ::SSL_get0_param(tls);
  // Server name indication (SNI): servers with several certificates choose by the host name. SNI does not allow
  // addresses.
  const bool accepted = is_name ? ::X509_VERIFY_PARAM_set1_host(wanted, host.c_str(), host.size()) == 1 &&
                                      SSL_set_tlsext_host_name(tls, host.c_str()) == 1
                                : ::X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str()) == 1;
  if (!accepted) fail(ErrorKind::io, "network", "the name '{}' cannot be sent to a server", host);
}

}  // namespace lockstep::net
