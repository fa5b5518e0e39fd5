#include <lockstep/base/error.h>
#include <lockstep/cluster/etcd/tls_context.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>

namespace lockstep::cluster::etcd {
namespace {

namespace ssl = boost::asio::ssl;
using ErrorCode = boost::system::error_code;

void check(const ErrorCode& error, const char* what, const std::string& file) {
  if (error) fail(ErrorKind::io, "etcd", "cannot use {} '{}' for TLS: {}", what, file, error.message());
}

}  // namespace

ssl::context make_tls_context(const TlsFiles& files) {
  ssl::context context(ssl::context::tls_client);
  context.set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 | ssl::context::no_sslv3 |
                      ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1);
  context.set_verify_mode(ssl::verify_peer);
  ErrorCode error;
  if (files.authorities.empty()) {
    context.set_default_verify_paths(error);
    check(error, "the system's list of authorities", "");
  } else {
    context.load_verify_file(files.authorities, error);
    check(error, "the authorities in ca_cert", files.authorities);
  }
  if (!files.certificate.empty()) {
    context.use_certificate_chain_file(files.certificate, error);
    check(error, "ssl_cert", files.certificate);
    context.use_private_key_file(files.key, ssl::context::pem, error);
    check(error, "ssl_cert_key", files.key);
  }
  return context;
}

void name_server(TlsStream& stream, const std::string& host) {
  stream.set_verify_callback(ssl::host_name_verification(host));
  ErrorCode is_name;
  boost::asio::ip::make_address(host, is_name);
  // Servers with several certificates choose by the name; an address is none.
  if (is_name && SSL_set_tlsext_host_name(stream.native_handle(), host.c_str()) != 1) {
    fail(ErrorKind::io, "etcd", "the name '{}' cannot be sent to a server", host);
  }
}

}  // namespace lockstep::cluster::etcd
