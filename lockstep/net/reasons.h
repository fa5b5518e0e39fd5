// Texts for failed connections, which a user can act on, and checks of TLS peers.
#pragma once

#include <lockstep/net/tls_terms.h>
#include <openssl/ssl.h>

#include <boost/system/error_code.hpp>
#include <string>

namespace lockstep::net {

/// The reason of a failed operation, for users. `tls` is the connection's TLS state, which has the details of a
/// rejected certificate; null for a plain connection.
std::string reason_of(const boost::system::error_code& error, SSL* tls, const TlsTerms& terms);

/// "2026-03-01 12:00:00 UTC".
std::string time_text(const ASN1_TIME& time);

/// Whether one side rejected the other in a TLS handshake, so that a retry cannot help.
bool is_refusal(const boost::system::error_code& error);

/// Whether the data from the peer is not HTTP, or is longer than allowed.
bool is_no_http(const boost::system::error_code& error);

/// Makes TLS verify that the peer's certificate is for this name or address. Error(io) for a name that is invalid in
/// TLS.
void expect_host(SSL* tls, const std::string& host);

}  // namespace lockstep::net
