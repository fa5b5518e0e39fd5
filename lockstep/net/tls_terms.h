// How messages about failed TLS name a user's settings.
#pragma once

#include <string>

namespace lockstep::net {

/// The default is for the scheduler and its workers.
struct TlsTerms {
  std::string authorities = "ca_cert_path";  ///< where this side lists the authorities that it trusts
  bool by_lockstep = true;  ///< the peer is Lockstep's: the setting below and 'lockstep certs init' concern it
  std::string switched_on_by = "enable_ssl";  ///< the setting that makes the peer speak TLS
};

}  // namespace lockstep::net
