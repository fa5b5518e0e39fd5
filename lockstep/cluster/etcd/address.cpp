// A parser of HOST:PORT and of etcd://HOST:PORT,.../KEY; etcds:// takes TLS files after a question mark.
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/cluster/etcd/address.h>

namespace lockstep::cluster::etcd {
namespace {

constexpr std::int64_t kUsualPort = 2379;
constexpr std::int64_t kHighestPort = 65535;
constexpr std::string_view kPlain = "etcd://", kSecured = "etcds://";

// The text before `mark`, or all of it when there is no such mark. Removes it and the mark from `text`.
std::string_view take_until(std::string_view& text, char mark) {
  const auto end = text.find(mark);
  const auto taken = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return taken;
}

TlsFiles parse_files(std::string_view query, const std::string& named) {
  TlsFiles files;
  while (!query.empty()) {
    auto value = take_until(query, '&');
    const auto name = take_until(value, '=');
    std::string* file = name == "ca_cert"        ? &files.authorities
                        : name == "ssl_cert"     ? &files.certificate
                        : name == "ssl_cert_key" ? &files.key
                                                 : nullptr;
    if (file == nullptr || value.empty()) {
      fail(ErrorKind::environment, "etcd",
           "{}: '{}' after the question mark is none of ca_cert=FILE, ssl_cert=FILE and ssl_cert_key=FILE", named,
           name);
    }
    *file = value;
  }
  if (files.certificate.empty() != files.key.empty()) {
    fail(ErrorKind::environment, "etcd", "{}: ssl_cert and ssl_cert_key belong together; there is only {}", named,
         files.key.empty() ? "ssl_cert" : "ssl_cert_key");
  }
  return files;
}

}  // namespace

std::optional<HttpServer> parse_server(std::string_view text) {
  const auto close = text.starts_with('[') ? text.find(']') : std::string_view::npos;
  const bool brackets = close != std::string_view::npos;
  const auto colon = brackets ? text.find(':', close) : text.rfind(':');
  const bool bare_ipv6 = !brackets && text.find(':') != colon;
  const bool has_port = colon != std::string_view::npos && !bare_ipv6;
  const auto port = has_port ? parse_integer(text.substr(colon + 1)) : kUsualPort;
  const auto host = brackets ? text.substr(1, close - 1) : text.substr(0, has_port ? colon : text.size());
  const bool junk = brackets && close + 1 != (has_port ? colon : text.size());
  if (host.empty() || junk || host.find('/') != std::string_view::npos) return std::nullopt;
  if (!port || *port < 1 || *port > kHighestPort) return std::nullopt;
  return HttpServer{std::string(host), static_cast<std::uint16_t>(*port)};
}

bool is_url(std::string_view text) { return text.starts_with(kPlain) || text.starts_with(kSecured); }

Url parse_url(std::string_view text, const std::string& named) {
  const bool secured = text.starts_with(kSecured);
  auto rest = text.substr((secured ? kSecured : kPlain).size());
  auto query = rest;
  const bool asks = rest.find('?') != std::string_view::npos;
  rest = take_until(query, '?');
  auto servers = take_until(rest, '/');
  if (rest.empty()) {
    fail(ErrorKind::environment, "etcd", "{}='{}' names no key: etcd://HOST[:PORT][,HOST[:PORT]...]/KEY", named,
         cut_text(text));
  }
  if (asks && !secured) {
    fail(ErrorKind::environment, "etcd", "{}='{}': certificates are used with etcds:// only", named, cut_text(text));
  }
  Url url;
  url.key = fmt::format("/{}", rest);
  url.address.named = named;
  url.address.tls_hint = "write etcds://";
  if (secured) url.address.tls = parse_files(query, named);
  do {
    const auto one = take_until(servers, ',');
    const auto server = parse_server(one);
    if (!server) {
      fail(ErrorKind::environment, "etcd", "{}='{}': '{}' must be HOST or HOST:PORT, a port from 1 to {}", named,
           cut_text(text), cut_text(one), kHighestPort);
    }
    url.address.servers.push_back(*server);
  } while (!servers.empty());
  return url;
}

}  // namespace lockstep::cluster::etcd
