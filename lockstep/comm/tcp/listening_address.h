// The address on which a rank listens during the rendezvous of a group, and sockets for it.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <cstdint>
#include <string>

namespace lockstep::detail::tcp {

/// The address that a rank publishes through the store.
struct ListeningAddress {
  std::string host;  ///< numeric address
  std::uint16_t port = 0;
  std::string token{};  ///< random: a peer that has it has read the store
};

std::string print(const ListeningAddress& address);
/// Error(data) for a text that print() did not write.
ListeningAddress parse_listening_address(const std::string& text);

/// The address as text: "10.0.0.2:4711", "[fd00::2]:4711".
std::string address_of(const ListeningAddress& address);
/// The same for the other side of a connection; "?" when it is not connected.
std::string address_of_peer(int socket);

/// Listens on address.host and sets address.port. Error(environment) when this fails.
UniqueFd listen_at(ListeningAddress& address);
/// Starts a connection; the socket becomes writable when the attempt has ended. Error(io) or Error(data) when it cannot
/// start.
UniqueFd begin_to_connect(const ListeningAddress& address);

}  // namespace lockstep::detail::tcp
