// Where a rank listens while a group meets: its address, and sockets for that.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <cstdint>
#include <string>

namespace lockstep::detail::tls {

/// What a rank tells the others through the store.
struct ListeningAddress {
  std::string host;  ///< numeric address
  std::uint16_t port = 0;
  std::string token{};  ///< random: who knows it has read the store
};

std::string print(const ListeningAddress& address);
/// Error(data) for a text that print() did not write.
ListeningAddress parse_listening_address(const std::string& text);

/// "10.0.0.2:4711", "[fd00::2]:4711".
std::string address_of(const ListeningAddress& address);
/// The same for the other side of a connection; "?" when it is not connected.
std::string address_of_peer(int socket);

/// Listens at address.host and sets address.port. Error(environment) when that cannot be.
UniqueFd listen_at(ListeningAddress& address);
/// Begins to connect; the socket is writable when that is over. Error(io), Error(data) when it cannot even begin.
UniqueFd begin_to_connect(const ListeningAddress& address);

}  // namespace lockstep::detail::tls
