// Texts for failed connections, which a user can act on, and checks of TLS peers.
#pragma once

#include <openssl/ssl.h>

#include <boost/system/error_code.hpp>
#include <string>

namespace lockstep::net {

/// `tls` is the connection's, or null where it is plain: it knows what was wrong with a certificate.
std::string reason_of(const boost::system::error_code& error, SSL* tls);

/// "2026-03-01 12:00:00 UTC".
std::string time_text(const ASN1_TIME& time);

/// Whether one side refused the other in a TLS handshake.
bool is_refusal(const boost::system::error_code& error);

/// The peer's certificate must be for this name or address. Error(io) for a name that TLS cannot carry.
void expect_host(SSL* tls, const std::string& host);

}  // namespace lockstep::net
