#include <lockstep/base/error.h>
#include <lockstep/net/client_tls.h>

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

}  // namespace lockstep::net
