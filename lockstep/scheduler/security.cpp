#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/scheduler/security.h>
#include <lockstep/scheduler/tls.h>
#include <lockstep/world/host_addresses.h>

#include <algorithm>
#include <boost/asio/ssl/context.hpp>
#include <cmath>
#include <fstream>

namespace lockstep::scheduler {
namespace {

// The first line: editors and `echo` end it.
std::string read_line(const std::string& file, const char* what) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  if (line.empty()) {
    fail(ErrorKind::io, "cluster", "cannot read {} from '{}': it is not there, or its first line is empty", what, file);
  }
  return line;
}

std::string password_of(const HiddenText& given, const std::string& file_of_config) {
  if (given.text) return *given.text;
  const std::string file = given.file.value_or(file_of_config);
  return file.empty() ? "" : read_line(file, "the password");
}

TlsFiles read_files(const ClusterSettings& settings) {
  TlsFiles files = read_tls_files(settings.config_file);
  for (const auto& warning : files.warnings) log_warning("{}: {}", settings.config_file, warning);
  return files;
}

}  // namespace

std::string read_secret(const ClusterSettings& settings) {
  if (settings.secret.text) return *settings.secret.text;
  return settings.secret.file ? read_line(*settings.secret.file, "the secret") : "";
}

std::shared_ptr<boost::asio::ssl::context> make_client_tls(const ClusterSettings& settings) {
  if (!settings.enable_ssl) return nullptr;
  const TlsFiles files = read_files(settings);
  return make_context(TlsSide::client, files, password_of(settings.client_password, files.client_password_file));
}

std::shared_ptr<boost::asio::ssl::context> make_server_tls(const ClusterSettings& settings) {
  if (!settings.enable_ssl) return nullptr;
  const TlsFiles files = read_files(settings);
  return make_context(TlsSide::server, files, password_of(settings.server_password, files.server_password_file));
}

Chore check_of_certificates(const ClusterSettings& settings, TlsSide side,
                            const std::shared_ptr<boost::asio::ssl::context>& tls) {
  if (!tls) return {};
  const TlsFiles files = read_tls_files(settings.config_file);
  return {std::chrono::hours(files.check_interval_hours), [=] { warn_of_expiry(*tls, side, files); }};
}

void require_secure(const ClusterSettings& settings) {
  if (settings.enable_ssl || settings.allow_insecure) return;
  const auto addresses = resolve(settings.host);
  if (std::all_of(addresses.begin(), addresses.end(), is_loopback_address)) return;
  fail(ErrorKind::environment, "scheduler",
       "MS_SCHED_HOST={} can be reached from other machines, and TLS is off: whoever reaches it could join the job. "
       "Turn "
       "TLS on (cluster.enable_ssl, and 'lockstep certs init DIR' for the files), or, in a network that you trust, set "
       "cluster.allow_insecure: true (LOCKSTEP_ALLOW_INSECURE=1)",
       settings.host);
}

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(std::llround(seconds * 1e3));
}

}  // namespace lockstep::scheduler
