// Client contexts for TLS 1.2 or newer, from PEM files or PEM texts, or with the system's authorities.
#include <lockstep/base/error.h>
#include <lockstep/net/client_tls.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/context.hpp>

namespace lockstep::net {
namespace {

namespace ssl = boost::asio::ssl;
using ErrorCode = boost::system::error_code;

void check(const ErrorCode& error, const char* what, const std::string& file) {
  if (error) fail(ErrorKind::io, "network", "cannot use {} '{}' for TLS: {}", what, file, error.message());
}

}  // namespace

std::shared_ptr<ssl::context> make_client_tls(const TlsFiles& files) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  context->set_verify_mode(ssl::verify_peer);
  ErrorCode error;
  if (files.authorities.empty()) {
    context->set_default_verify_paths(error);
    if (error) fail(ErrorKind::io, "network", "cannot use the system's authorities for TLS: {}", error.message());
  } else {
    context->load_verify_file(files.authorities, error);
    check(error, "the authorities in ca_cert", files.authorities);
  }
  if (!files.certificate.empty()) {
    context->use_certificate_chain_file(files.certificate, error);
    check(error, "ssl_cert", files.certificate);
    context->use_private_key_file(files.key, ssl::context::pem, error);
    check(error, "ssl_cert_key", files.key);
  }
  return context;
}

std::shared_ptr<ssl::context> make_client_tls_from_texts(const TlsTexts& texts) {
  const auto check_text = [](const ErrorCode& error, const char* what) {
    if (error) fail(ErrorKind::config, "network", "cannot use the {} for TLS: {}", what, error.message());
  };
  auto context = std::make_shared<ssl::context>(ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  context->set_verify_mode(texts.verify ? ssl::verify_peer : ssl::verify_none);
  ErrorCode error;
  if (texts.authorities.empty()) {
    context->set_default_verify_paths(error);
    check_text(error, "system's authorities");
  } else {
    context->add_certificate_authority(boost::asio::buffer(texts.authorities), error);
    check_text(error, "certificate authority");
  }
  if (!texts.certificate.empty()) {
    context->use_certificate_chain(boost::asio::buffer(texts.certificate), error);
    check_text(error, "client certificate");
    context->use_private_key(boost::asio::buffer(texts.key), ssl::context::pem, error);
    check_text(error, "client key");
  }
  return context;
}

}  // namespace lockstep::net
