// The TLS context of a connection to etcd: the trusted authorities, and this client's certificate and key.
#pragma once

#include <lockstep/cluster/etcd/http_channel.h>

#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/tcp_stream.hpp>

namespace lockstep::cluster::etcd {

using TlsStream = boost::asio::ssl::stream<boost::beast::tcp_stream>;

/// TLS 1.2 or newer, the server's certificate required. Error(io) naming the file that cannot be used.
boost::asio::ssl::context make_tls_context(const TlsFiles& files);

/// Sets the server's name before the handshake of `stream`: its certificate must be for that name or address.
void name_server(TlsStream& stream, const std::string& host);

}  // namespace lockstep::cluster::etcd
