// Text forms of an etcd's address: HOST:PORT, and URLs that also name a key and TLS files.
#pragma once

#include <lockstep/cluster/etcd/client.h>

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::cluster::etcd {

/// HOST, HOST:PORT, or an IPv6 address, which needs brackets before a port; the port defaults to 2379. nullopt for
/// anything else.
std::optional<HttpServer> parse_server(std::string_view text);

struct Url {
  Address address;
  std::string key;  ///< with its leading slash
};

/// Whether a text begins as an address does: "etcd://" or, for TLS, "etcds://".
bool is_url(std::string_view text);

/// etcd://HOST[:PORT][,HOST[:PORT]...]/KEY, or etcds://.../KEY[?ca_cert=FILE&ssl_cert=FILE&ssl_cert_key=FILE].
/// Error(environment) for anything else; its message begins with `named`, the source of the text.
Url parse_url(std::string_view text, const std::string& named);

}  // namespace lockstep::cluster::etcd
