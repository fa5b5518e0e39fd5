#include <lockstep/base/error.h>
#include <lockstep/net/reasons.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <boost/asio/error.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/websocket/error.hpp>

namespace lockstep::net {
namespace {

namespace asio = boost::asio;

std::string about_certificate(SSL* tls) {
  const long result = ::SSL_get_verify_result(tls);
  if (result == X509_V_OK) return "its certificate was refused";
  const std::string text = ::X509_verify_cert_error_string(result);
  switch (result) {
    case X509_V_ERR_CERT_HAS_EXPIRED: return "its certificate has expired";
    case X509_V_ERR_CERT_NOT_YET_VALID: return "its certificate is not valid yet; compare the clocks";
    case X509_V_ERR_CERT_REVOKED: return "its certificate is revoked";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH: return "its certificate is for another host name (" + text + ")";
    case X509_V_ERR_UNABLE_TO_GET_CRL: return "no revocation list in crl_path is by the authority that signed it";
    case X509_V_ERR_CRL_HAS_EXPIRED: return "the revocation list in crl_path has expired";
    case X509_V_ERR_EE_KEY_TOO_SMALL:
    case X509_V_ERR_CA_KEY_TOO_SMALL: return "a key is too short: use EC P-256 or RSA with 3072 bits (" + text + ")";
    default: return "its certificate is not by an authority in ca_cert_path (" + text + ")";
  }
}

std::string about_alert(int alert, const std::string& text) {
  switch (alert) {
    case SSL3_AD_BAD_CERTIFICATE:
    case SSL3_AD_UNSUPPORTED_CERTIFICATE: return "it refused our certificate (" + text + ")";
    case SSL3_AD_CERTIFICATE_REVOKED: return "it says that our certificate is revoked";
    case SSL3_AD_CERTIFICATE_EXPIRED: return "it says that our certificate has expired";
    case TLS1_AD_UNKNOWN_CA: return "it does not know the authority that signed our certificate";
    case TLS13_AD_CERTIFICATE_REQUIRED: return "it wants a certificate, and we showed none";
    case TLS1_AD_PROTOCOL_VERSION: return "no version of TLS suits both sides (" + text + ")";
    case SSL3_AD_HANDSHAKE_FAILURE: return "it found no cipher or certificate that suits both sides (" + text + ")";
    default: return "it ended the TLS handshake (" + text + ")";
  }
}

std::string about_tls(unsigned long code, SSL* tls) {
  const char* words = ::ERR_reason_error_string(code);
  const std::string text = words != nullptr ? words : "error " + std::to_string(code);
  const int reason = ERR_GET_REASON(code);
  if (ERR_GET_LIB(code) != ERR_LIB_SSL) return "TLS failed (" + text + ")";
  if (reason > SSL_AD_REASON_OFFSET) return about_alert(reason - SSL_AD_REASON_OFFSET, text);
  switch (reason) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED: return about_certificate(tls);
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE: return "it showed no certificate";
    case SSL_R_NO_SHARED_CIPHER: return "it offers no cipher that is allowed here (weak cipher)";
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_WRONG_SSL_VERSION: return "it speaks no TLS 1.2 or newer (" + text + ")";
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_WRONG_VERSION_NUMBER: return "it does not speak TLS; does it have enable_ssl?";
    default: return "TLS failed (" + text + ")";
  }
}

}  // namespace

std::string reason_of(const boost::system::error_code& error, SSL* tls) {
  const bool closed = error == asio::error::eof || error == asio::error::connection_reset ||
                      error == asio::error::broken_pipe || error == asio::ssl::error::stream_truncated ||
                      error == boost::beast::http::error::end_of_stream;
  if (closed && tls != nullptr && ::SSL_is_init_finished(tls) == 0) {
    return "it closed the connection in the middle of the TLS handshake; does it have enable_ssl?";
  }
  if (closed) return "it closed the connection";
  if (error == boost::beast::websocket::error::closed) return "it ended the conversation";
  if (error == boost::beast::websocket::error::message_too_big) return "it sent a message above the limit";
  if (error == boost::beast::websocket::error::upgrade_declined)
    return "it refused to talk; does it have enable_ssl, or is it another program?";
  if (error == boost::beast::http::error::header_limit || error == boost::beast::http::error::body_limit) {
    return "it sent a request above the limit";
  }
  if (tls != nullptr && error.category() == asio::error::get_ssl_category()) {
    return about_tls(static_cast<unsigned long>(error.value()), tls);
  }
  return error.message();
}

bool is_refusal(const boost::system::error_code& error) { return error.category() == asio::error::get_ssl_category(); }

void expect_host(SSL* tls, const std::string& host) {
  boost::system::error_code is_name;
  asio::ip::make_address(host, is_name);
  auto* wanted = ::SSL_get0_param(tls);
  // Servers with several certificates choose by the name; an address is none.
  const bool accepted = is_name ? ::X509_VERIFY_PARAM_set1_host(wanted, host.c_str(), host.size()) == 1 &&
                                      SSL_set_tlsext_host_name(tls, host.c_str()) == 1
                                : ::X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str()) == 1;
  if (!accepted) fail(ErrorKind::io, "network", "the name '{}' cannot be sent to a server", host);
}

}  // namespace lockstep::net
