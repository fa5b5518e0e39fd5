#include <lockstep/base/error.h>
#include <lockstep/base/parse.h>
#include <lockstep/cluster/elastic/etcd_options.h>
#include <lockstep/cluster/etcd/address.h>

#include <fmt/format.h>

#include <sstream>

namespace lockstep::cluster::elastic {
namespace {

constexpr std::int64_t kHighestPort = 65535;
constexpr std::int64_t kLongestLease = std::int64_t{7} * 24 * 3600;

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorKind::invalid_argument, "run", format, std::forward<Args>(args)...);
}

etcd::HttpServer server_of(const std::string& text) {
  if (const auto server = etcd::parse_server(text)) return *server;
  refuse("--rdzv_endpoint: '{}' must be HOST or HOST:PORT, a port from 1 to {}, for each server of etcd", text,
         kHighestPort);
}

std::string setting(const std::map<std::string, std::string>& conf, const std::string& key) {
  const auto found = conf.find(key);
  return found == conf.end() ? "" : found->second;
}

std::optional<etcd::TlsFiles> parse_tls(const std::map<std::string, std::string>& conf) {
  const std::string protocol = conf.contains("protocol") ? setting(conf, "protocol") : "http";
  etcd::TlsFiles files;
  files.authorities = setting(conf, conf.contains("cacert") ? "cacert" : "ca_cert");
  files.certificate = setting(conf, "ssl_cert");
  files.key = setting(conf, "ssl_cert_key");
  if (protocol != "http" && protocol != "https") refuse("--rdzv_conf protocol={}: must be http or https", protocol);
  if (files.certificate.empty() != files.key.empty()) {
    refuse("--rdzv_conf: ssl_cert and ssl_cert_key belong together; there is only {}",
           files.key.empty() ? "ssl_cert" : "ssl_cert_key");
  }
  if (protocol == "https") return files;
  if (!files.authorities.empty() || !files.key.empty()) {
    refuse("--rdzv_conf: certificates are of use with protocol=https alone, and protocol is http");
  }
  return std::nullopt;
}

std::chrono::seconds parse_lease(const std::string& text) {
  const auto seconds = parse_integer(text);
  if (!seconds || *seconds < 1 || *seconds > kLongestLease) {
    refuse("--rdzv_conf lease={}: must be a number of seconds from 1 to {}", text, kLongestLease);
  }
  return std::chrono::seconds(*seconds);
}

}  // namespace

EtcdStoreOptions etcd_options(const std::string& endpoint, const std::string& job,
                              const std::map<std::string, std::string>& conf) {
  if (endpoint.empty()) {
    refuse("--rdzv_backend etcd needs --rdzv_endpoint HOST[:PORT], where etcd is; several servers with commas");
  }
  if (job.empty() || job == "none") {
    refuse(
        "--rdzv_backend etcd needs --rdzv_id, a name for this start of the job, the same on all nodes: other jobs may "
        "use the same etcd");
  }
  EtcdStoreOptions options;
  options.job = job;
  options.address.tls = parse_tls(conf);
  std::istringstream in(endpoint);
  for (std::string server; std::getline(in, server, ',');) options.address.servers.push_back(server_of(server));
  if (conf.contains("lease")) options.lease = parse_lease(setting(conf, "lease"));
  return options;
}

}  // namespace lockstep::cluster::elastic
