// The names of a user's settings in messages about failed TLS.
#pragma once

#include <string>

namespace lockstep::net {

/// The default is for the scheduler and its workers.
struct TlsTerms {
  std::string authorities = "ca_cert_path";  ///< the setting with the authorities that this side trusts
  bool by_lockstep = true;  ///< the peer is Lockstep's: the setting below and 'lockstep certs init' apply to it
  std::string switched_on_by = "enable_ssl";  ///< the setting that enables TLS at the peer
};

}  // namespace lockstep::net
