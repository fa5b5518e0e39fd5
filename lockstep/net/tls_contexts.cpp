// TLS contexts of the scheduler and its workers: security level 3, mutual certificates, revocation, expiry warnings;
// the pair of contexts with which ranks and launchers encrypt (LOCKSTEP_ENCRYPT); and those of clients with PEM files
// or texts, or with the system's authorities.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/log.h>
#include <lockstep/net/certificates/certificates.h>
#include <lockstep/net/channel.h>
#include <lockstep/net/reasons.h>
#include <lockstep/net/tls_contexts.h>
#include <lockstep/world/host_addresses.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fstream>
#include <utility>

namespace lockstep::net {
namespace {

constexpr int kSecurityLevel = 3;

// The result of `read` for a file's content. Adds the file's name to errors.
template <typename Read>
auto from_file(const char* field, const std::string& file, const ReadBytes& read_bytes, const Read& read) {
  const auto bytes = read_bytes(file);
  if (!bytes) fail(ErrorKind::config, "cluster", "cannot read {} '{}'", field, file);
  try {
    return read(*bytes);
  } catch (const Error& error) {
    fail(ErrorKind::config, "cluster", "cannot use {} '{}': {}", field, file, error.message());
  }
}

const std::string& own_file(TlsSide side, const CertificateFiles& files) {
  return side == TlsSide::server ? files.server_cert : files.client_cert;
}

Identity read_identity(TlsSide side, const CertificateFiles& files, const std::string& password,
                       const ReadBytes& read_bytes) {
  const auto read = [&](const std::string& bytes) { return read_p12(bytes, password); };
  return from_file(side == TlsSide::server ? "server_cert_path" : "client_cert_path", own_file(side, files), read_bytes,
                   read);
}

void check(bool done, const char* what, const std::string& file) {
  if (!done) fail(ErrorKind::config, "cluster", "cannot use {} '{}' for TLS: {}", what, file, openssl_reason());
}

void limit(SSL_CTX* context, const CertificateFiles& files) {
  ::SSL_CTX_set_security_level(context, kSecurityLevel);
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_dh_auto(context, 1);
  // No resumed sessions: a certificate that was revoked meanwhile must be checked again.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  ::SSL_CTX_set_num_tickets(context, 0);
  ::SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  const auto& ciphers = files.ciphers.empty() ? supported_ciphers() : files.ciphers;
  check(::SSL_CTX_set_cipher_list(context, fmt::format("{}", fmt::join(ciphers, ":")).c_str()) == 1, "cipher_list",
        fmt::format("{}", fmt::join(ciphers, ":")));
}

// Error(config) for a certificate that no peer accepts, because it is for another use.
void check_purpose(TlsSide side, const Identity& identity, const std::string& file) {
  const bool server = side == TlsSide::server;
  const int purpose = server ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT;
  if (::X509_check_purpose(identity.certificate.get(), purpose, 0) == 1) return;
  fail(ErrorKind::config, "cluster",
       "cannot use {} '{}': its certificate {} is not for a TLS {} (extendedKeyUsage {}, keyUsage digitalSignature); "
       "'lockstep certs init' makes some that are",
       server ? "server_cert_path" : "client_cert_path", file, subject_of(*identity.certificate),
       server ? "server" : "client", server ? "serverAuth" : "clientAuth");
}

void show(SSL_CTX* context, const Identity& identity, const std::string& file) {
  bool done = ::SSL_CTX_use_certificate(context, identity.certificate.get()) == 1;
  if (!done) check(false, "the certificate in", file + "' (keys need EC P-256 or RSA with 3072 bits) '");
  done = ::SSL_CTX_use_PrivateKey(context, identity.key.get()) == 1 && ::SSL_CTX_check_private_key(context) == 1;
  for (const auto& one : identity.chain) done = done && SSL_CTX_add1_chain_cert(context, one.get()) == 1;
  check(done, "the key in", file);
}

// Error(config) for an expired revocation list: with it, every peer would be refused.
void check_time(const X509_CRL& list, const std::string& file) {
  const ASN1_TIME* const until = ::X509_CRL_get0_nextUpdate(&list);
  if (until != nullptr && ::X509_cmp_current_time(until) < 0) {
    fail(
        ErrorKind::config, "cluster",
        "cannot use crl_path '{}': the revocation list expired on {}, so every certificate would be refused; get a new "
        "one from its authority, or leave crl_path empty to do without",
        file, net::time_text(*until));
  }
  const ASN1_TIME* const from = ::X509_CRL_get0_lastUpdate(&list);
  if (::X509_cmp_current_time(from) > 0) {
    fail(ErrorKind::config, "cluster",
         "cannot use crl_path '{}': the revocation list is valid from {} on; compare this machine's clock", file,
         net::time_text(*from));
  }
}

void trust(SSL_CTX* context, const CertificateFiles& files, const ReadBytes& read) {
  X509_STORE* store = ::SSL_CTX_get_cert_store(context);
  for (const auto& authority : from_file("ca_cert_path", files.ca_cert, read, read_certificates)) {
    check(::X509_STORE_add_cert(store, authority.get()) == 1, "ca_cert_path", files.ca_cert);
  }
  if (files.crl.empty()) return;
  for (const auto& list : from_file("crl_path", files.crl, read, read_revocation_lists)) {
    check_time(*list, files.crl);
    check(::X509_STORE_add_crl(store, list.get()) == 1, "crl_path", files.crl);
  }
  ::X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
}

void warn_of(const X509& certificate, const std::string& file, int days) {
  const ASN1_TIME* const from = ::X509_get0_notBefore(&certificate);
  if (::X509_cmp_current_time(from) > 0) {
    log_warning("the certificate {} in '{}' is valid from {} on; peers will refuse it till then. Compare the clocks",
                subject_of(certificate), file, net::time_text(*from));
    return;
  }
  const auto left = time_left(certificate);
  if (!left || *left > std::chrono::hours(24 * days)) return;
  if (left->count() < 0) {
    log_warning("the certificate {} in '{}' has expired; peers will refuse it", subject_of(certificate), file);
  } else {
    log_warning(
        "the certificate {} in '{}' expires in {} day(s); a renewed file is read when this program starts again",
        subject_of(certificate), file, left->count() / 24);
  }
}

// The first line of a file without its newline, which editors and `echo` add.
std::string read_line(const std::string& file, const char* what) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  if (line.empty()) {
    fail(ErrorKind::config, "cluster", "cannot read {} from '{}': it is not there, or its first line is empty", what,
         file);
  }
  return line;
}

std::string password_of(const HiddenText& given, const std::string& file_of_config) {
  if (given.text) return *given.text;
  const std::string file = given.file.value_or(file_of_config);
  return file.empty() ? "" : read_line(file, "the password");
}

Tls make_tls(const ClusterSettings& settings, TlsSide side, const HiddenText& password,
             const std::string CertificateFiles::*password_file) {
  if (!settings.enable_ssl) return {};
  const CertificateFiles files = read_tls_files(settings.config_file);
  for (const auto& warning : files.warnings) log_warning("{}: {}", settings.config_file, warning);
  const auto context = make_context(side, files, password_of(password, files.*password_file));
  return {.context = context,
          .check_of_certificates = {std::chrono::hours(files.check_interval_hours),
                                    [=] { warn_of_expiry(*context, side, files); }},
          .connections = files.connections};
}

}  // namespace

std::shared_ptr<boost::asio::ssl::context> make_context(TlsSide side, const CertificateFiles& files,
                                                        const std::string& password) {
  return make_context(side, files, password, [](const std::string& file) { return read_file(file); });
}

std::shared_ptr<boost::asio::ssl::context> make_context(TlsSide side, const CertificateFiles& files,
                                                        const std::string& password, const ReadBytes& read) {
  using Context = boost::asio::ssl::context;
  auto context = std::make_shared<Context>(side == TlsSide::server ? Context::tls_server : Context::tls_client);
  const Identity identity = read_identity(side, files, password, read);
  check_purpose(side, identity, own_file(side, files));
  limit(context->native_handle(), files);
  show(context->native_handle(), identity, own_file(side, files));
  trust(context->native_handle(), files, read);
  context->set_verify_mode(boost::asio::ssl::verify_peer | boost::asio::ssl::verify_fail_if_no_peer_cert);
  warn_of_expiry(*context, side, files);
  return context;
}

void warn_of_expiry(boost::asio::ssl::context& context, TlsSide side, const CertificateFiles& files) {
  SSL_CTX* native = context.native_handle();
  if (const X509* own = ::SSL_CTX_get0_certificate(native)) warn_of(*own, own_file(side, files), files.warning_days);
  const auto* trusted = ::X509_STORE_get0_objects(::SSL_CTX_get_cert_store(native));
  for (int i = 0; i < sk_X509_OBJECT_num(trusted); ++i) {
    const X509* authority = ::X509_OBJECT_get0_X509(sk_X509_OBJECT_value(trusted, i));
    // An object without a certificate is a revocation list.
    if (authority != nullptr) warn_of(*authority, files.ca_cert, files.warning_days);
  }
}

std::string read_secret(const ClusterSettings& settings) {
  if (settings.secret.text) return *settings.secret.text;
  return settings.secret.file ? read_line(*settings.secret.file, "the secret") : "";
}

Tls make_member_tls(const ClusterSettings& settings) {
  return make_tls(settings, TlsSide::client, settings.client_password, &CertificateFiles::client_password_file);
}

Tls make_service_tls(const ClusterSettings& settings) {
  return make_tls(settings, TlsSide::server, settings.server_password, &CertificateFiles::server_password_file);
}

void require_secure(const ClusterSettings& settings) {
  if (settings.enable_ssl || settings.allow_insecure) return;
  const auto addresses = resolve(settings.host);
  if (std::all_of(addresses.begin(), addresses.end(), is_loopback_address)) return;
  fail(ErrorKind::environment, "scheduler",
       "MS_SCHED_HOST={} can be reached from other machines, and TLS is off: any process that reaches it could join "
       "the job. "
       "Turn "
       "TLS on (cluster.enable_ssl, and 'lockstep certs init DIR' for the files), or, in a network that you trust, set "
       "cluster.allow_insecure: true (LOCKSTEP_ALLOW_INSECURE=1)",
       settings.host);
}

std::shared_ptr<const PeerTls> read_peer_tls(const CertificateSettings& certificates) {
  if (certificates.config_file.empty()) {
    fail(
        ErrorKind::environment, "connect",
        "encryption is on (parallel.encrypt, LOCKSTEP_ENCRYPT, or backend tls), and there are no certificates: set "
        "cluster.config_file_path (LOCKSTEP_CLUSTER_CONFIG) to the JSON file that names them; 'lockstep certs init DIR "
        "--nodes HOST,...' makes one for each host");
  }
  ClusterSettings settings;
  settings.enable_ssl = true;
  settings.config_file = certificates.config_file;
  settings.server_password = certificates.server_password;
  settings.client_password = certificates.client_password;
  return std::make_shared<const PeerTls>(
      PeerTls{make_service_tls(settings).context, make_member_tls(settings).context});
}

std::shared_ptr<const PeerTls> find_peer_tls(const Environment& environment) {
  if (find_integer(environment, "LOCKSTEP_ENCRYPT", 0, 1) != 1) return nullptr;
  return read_peer_tls(find_certificates(environment, {}));
}

namespace {

namespace ssl = boost::asio::ssl;
using ErrorCode = boost::system::error_code;

std::shared_ptr<ssl::context> new_client_context(ssl::verify_mode verify) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  context->set_verify_mode(verify);
  return context;
}

void check_file(const ErrorCode& error, const char* what, const std::string& file) {
  if (error) fail(ErrorKind::io, "network", "cannot use {} '{}' for TLS: {}", what, file, error.message());
}

}  // namespace

std::shared_ptr<ssl::context> make_client_tls(const TlsFiles& files) {
  auto context = new_client_context(ssl::verify_peer);
  ErrorCode error;
  if (files.authorities.empty()) {
    context->set_default_verify_paths(error);
    if (error) fail(ErrorKind::io, "network", "cannot use the system's authorities for TLS: {}", error.message());
  } else {
    context->load_verify_file(files.authorities, error);
    check_file(error, "the authorities in ca_cert", files.authorities);
  }
  if (!files.certificate.empty()) {
    context->use_certificate_chain_file(files.certificate, error);
    check_file(error, "ssl_cert", files.certificate);
    context->use_private_key_file(files.key, ssl::context::pem, error);
    check_file(error, "ssl_cert_key", files.key);
  }
  return context;
}

std::shared_ptr<ssl::context> make_client_tls_from_texts(const TlsTexts& texts) {
  const auto check_text = [](const ErrorCode& error, const char* what) {
    if (error) fail(ErrorKind::config, "network", "cannot use the {} for TLS: {}", what, error.message());
  };
  auto context = new_client_context(texts.verify ? ssl::verify_peer : ssl::verify_none);
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

namespace {

Awaitable<void> repeat(boost::asio::io_context& context, PeriodicTask task) {
  boost::asio::steady_timer timer(context);
  for (;;) {
    co_await sleep(timer, task.interval);
    task.call();
  }
}

}  // namespace

void run_periodically(boost::asio::io_context& context, PeriodicTask task) {
  if (task.call) boost::asio::co_spawn(context, repeat(context, std::move(task)), boost::asio::detached);
}

}  // namespace lockstep::net
