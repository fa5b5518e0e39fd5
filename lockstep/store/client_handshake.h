// The client's side of the handshake with a store.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/net/tls_stream.h>
#include <lockstep/store/client.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace lockstep::store {

/// Waits for one of `events` (poll); false when the deadline has passed. nullopt: no deadline. True also on an error,
/// which the next call on the socket reports.
bool wait_for(int socket, short events, std::optional<Time> deadline);

/// A connection on which requests can be sent.
struct StoreConnection {
  UniqueFd socket;                           ///< does not block
  std::unique_ptr<net::TlsStream> stream{};  ///< for an encrypted connection
};

/// Connects and completes the handshake. Errors: those of Client().
StoreConnection connect_to_store(const std::string& host, std::uint16_t port, const Credentials& credentials,
                                 Time deadline);

}  // namespace lockstep::store
