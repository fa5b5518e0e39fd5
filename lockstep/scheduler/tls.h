// TLS contexts of the scheduler and its workers: TLS 1.2 or newer, both sides with a certificate.
#pragma once

#include <lockstep/scheduler/tls_files.h>

#include <memory>
#include <string>

namespace boost::asio::ssl {
class context;
}

namespace lockstep::scheduler {

enum class TlsSide { server, client };

/// Reads the certificate of that side, the authorities and the revocation list. OpenSSL's security level is 3: keys of
/// 128 bits of security (EC P-256, RSA 3072), no SHA-1. Warns of files that expire soon. Error(config) naming the file
/// that cannot be used, and why: a certificate for another use, an expired revocation list.
std::shared_ptr<boost::asio::ssl::context> make_context(TlsSide side, const TlsFiles& files,
                                                        const std::string& password);

/// Warns where the certificate in `context`, or one of its authorities, expires within files.warning_days. Peers see
/// this certificate: a renewed file has effect when the process starts again.
void warn_of_expiry(boost::asio::ssl::context& context, TlsSide side, const TlsFiles& files);

}  // namespace lockstep::scheduler
