// The client's side of the handshake with a store.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/store/client.h>

#include <cstdint>
#include <string>

namespace lockstep::store {

/// Connects and completes the handshake. Returns a non-blocking socket on which requests can be sent. Errors: those of
/// Client().
UniqueFd connect_to_store(const std::string& host, std::uint16_t port, const std::string& secret, Time deadline);

}  // namespace lockstep::store
