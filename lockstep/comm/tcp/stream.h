// A connection between two ranks: its bytes, over a plain TCP socket or TLS 1.3; the address on which a rank listens
// during the rendezvous of a group; and the handshake of a new connection, where the listening side does not know the
// peer's rank yet: TLS, if the job encrypts, and then the hello.
//
//   LOCKSTEP TCP 1, the token of the listening address, the rank that connects        and back:  LOCKSTEP TCP 1
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/net/tls_stream.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <sys/uio.h>

namespace lockstep::detail::tcp {

/// No call blocks, and none raises SIGPIPE. Errors as those of net::TlsStream. Not thread-safe.
class Stream {
 public:
  using Side = net::TlsStream::Side;
  using Wait = net::TlsStream::Wait;
  using Moved = net::TlsStream::Moved;

  /// The number of records of up to 16 KiB that one side encrypts with one key: a fifth of the limit for AES-GCM.
  static constexpr std::uint64_t kRecordsOfKey = std::uint64_t{1} << 22;

  /// A connection whose data travels as it is. `socket`, here and below, must outlive the stream.
  explicit Stream(int socket) : socket_(socket) {}
  Stream(int socket, std::shared_ptr<const net::PeerTls> tls, Side side, std::uint64_t records_of_key = kRecordsOfKey)
      : socket_(socket), tls_(std::in_place, std::move(tls), side, socket), records_of_key_(records_of_key) {}

  /// The handshake of TLS; without TLS it is complete at once.
  Wait handshake() { return tls_ ? tls_->handshake() : Wait::nothing; }
  /// Reads up to `bytes`, at least one if there are any: read until `wait` is not `nothing`.
  Moved read(std::byte* into, std::size_t bytes);
  /// Takes up to all bytes of `parts`, in their order. With TLS it may still hold taken bytes: call flush().
  Moved write(std::span<const iovec> parts);
  /// Passes all taken bytes to the kernel, unless it waits to write.
  Wait flush() { return tls_ ? tls_->flush() : Wait::nothing; }

 private:
  Moved read_plain(std::byte* into, std::size_t bytes);
  Moved take_ahead(std::byte* into, std::size_t bytes);

  int socket_;
  std::optional<net::TlsStream> tls_{};
  std::uint64_t records_of_key_ = kRecordsOfKey;
  std::uint64_t records_with_key_ = 0;

  // Plain data that was read together with what the caller asked for: a short message and its header take one call of
  // the kernel.
  static constexpr std::size_t kAhead = std::size_t{4} << 10;
  std::unique_ptr<std::array<std::byte, kAhead>> ahead_{};
  std::size_t ahead_begin_ = 0;
  std::size_t ahead_end_ = 0;
};

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
