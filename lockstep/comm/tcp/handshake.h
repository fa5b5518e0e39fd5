// New connections between two ranks: the address on which a rank listens during the rendezvous of a group, and the
// handshake, where the listening side does not know the peer's rank yet: TLS, if the job encrypts, and then the hello.
//
//   LOCKSTEP TCP 1, the token of the listening address, the rank that connects        and back:  LOCKSTEP TCP 1
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/comm/tcp/stream.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
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

/// A connection until both sides have identified each other, or one has refused the other.
struct Handshake {
  enum class Phase { connects, tls_handshake, sends_hello, awaits_hello, refused };

  UniqueFd socket{};
  std::string address{};
  int rank = -1;  ///< of the peer; -1: not received yet
  Stream::Side side = Stream::Side::server;
  Phase phase = Phase::tls_handshake;
  std::chrono::steady_clock::time_point deadline{};
  std::unique_ptr<Stream> stream{};
  std::string in{};
  std::string out{};
  Stream::Wait wait = Stream::Wait::nothing;  ///< the event before the next call of advance()
};

/// The first message of the side that connected.
struct Hello {
  std::string token;
  int rank = -1;
};

std::string print(const Hello& hello);

/// Advances as far as the connection allows. True once both sides have identified each other. `check` throws where the
/// peer may not take part. Errors: those of `check` and of Stream; Error(environment) or Error(data) for another
/// program.
bool advance(Handshake& handshake, const std::function<void(const Hello&)>& check);

/// After an error: sends the reason to the peer, which has to close the connection; otherwise the reason may not reach
/// it.
void refuse(Handshake& handshake);
/// Whether a refused peer is still connected, before its deadline.
bool is_refused_peer_there(const Handshake& handshake);

}  // namespace lockstep::detail::tcp
