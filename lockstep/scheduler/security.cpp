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
             const std::string TlsFiles::*password_file) {
  if (!settings.enable_ssl) return {};
  const TlsFiles files = read_tls_files(settings.config_file);
  for (const auto& warning : files.warnings) log_warning("{}: {}", settings.config_file, warning);
  const auto context = make_context(side, files, password_of(password, files.*password_file));
  return {.context = context,
          .check_of_certificates = {std::chrono::hours(files.check_interval_hours),
                                    [=] { warn_of_expiry(*context, side, files); }},
          .connections = files.connections};
}

}  // namespace

std::string read_secret(const ClusterSettings& settings) {
  if (settings.secret.text) return *settings.secret.text;
  return settings.secret.file ? read_line(*settings.secret.file, "the secret") : "";
}

Tls make_client_tls(const ClusterSettings& settings) {
  return make_tls(settings, TlsSide::client, settings.client_password, &TlsFiles::client_password_file);
}

Tls make_server_tls(const ClusterSettings& settings) {
  return make_tls(settings, TlsSide::server, settings.server_password, &TlsFiles::server_password_file);
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
