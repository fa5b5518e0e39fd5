// What TLS needs to know before it connects: whom to trust and who this client is.
#pragma once

#include <lockstep/cluster/etcd/http_channel.h>

#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/tcp_stream.hpp>

namespace lockstep::cluster::etcd {

using TlsStream = boost::asio::ssl::stream<boost::beast::tcp_stream>;

/// TLS 1.2 or newer, the server's certificate required. Error(io) naming the file that cannot be used.
boost::asio::ssl::context make_tls_context(const TlsFiles& files);

/// The server that `stream` is about to talk to: its certificate must be for that name or address.
void name_server(TlsStream& stream, const std::string& host);

}  // namespace lockstep::cluster::etcd
