// One TLS 1.3 connection over a socket that does not block: for threads that serve many connections, and for bulk data.
#pragma once

#include <lockstep/net/tls_contexts.h>
#include <lockstep/net/tls_terms.h>

#include <chrono>
#include <cstddef>
#include <memory>

namespace lockstep::net {

/// No call blocks, and none raises SIGPIPE. Errors are Error(environment) where one side refuses the other, and
/// Error(io) where the connection is lost; their message is only the reason, as a clause to follow the peer's name.
/// Call nothing after an error. Not thread-safe.
class TlsStream {
 public:
  enum class Side { server, client };

  /// `socket` must outlive the stream. Memory: `buffer` bytes for each direction once the connection is used.
  TlsStream(std::shared_ptr<const PeerTls> tls, Side side, int socket, std::size_t buffer = kBulk,
            TlsTerms terms = terms_of_peers());
  ~TlsStream();
  TlsStream(TlsStream&&) noexcept;
  TlsStream& operator=(TlsStream&&) noexcept;

  static constexpr std::size_t kBulk = std::size_t{256} << 10;
  static constexpr std::size_t kSmall = std::size_t{20} << 10;

  /// The event for which an unfinished call waits: call it again once the socket is ready for that.
  enum class Wait { nothing, to_read, to_write };

  /// The handshake. Wait::nothing: it is complete on this side, and the peer's certificate is verified.
  Wait handshake();

  struct Moved {
    std::size_t bytes = 0;
    Wait wait = Wait::nothing;  ///< not `nothing` only with zero bytes
    bool ended = false;         ///< the peer has closed TLS before the connection
  };
  /// Reads up to `bytes`, at least one if there are any. This object may hold received data that polling the socket
  /// does not show: read until `wait` is not `nothing`.
  Moved read(std::byte* into, std::size_t bytes);
  /// Takes up to `bytes` to send. This object may still hold taken bytes: call flush().
  Moved write(const std::byte* from, std::size_t bytes);
  /// Passes all taken bytes to the kernel, unless it waits to write.
  Wait flush();

  /// Changes the keys for the data that this side sends from here on. A key of AES-GCM may be used for 2^24.5 records
  /// (RFC 8446, 5.5), and OpenSSL does not count them. Call it only when write() has taken everything that was passed
  /// to it.
  void change_keys();

  /// Sends the peer the notice that no more data follows, as far as the kernel takes it at once.
  void end() noexcept;

 private:
  struct State;
  static TlsTerms terms_of_peers();

  std::unique_ptr<State> state_;
};

/// Completes the handshake on a non-blocking socket, and waits where necessary: Error(timeout) at `deadline`.
void await_handshake(TlsStream& stream, int socket, std::chrono::steady_clock::time_point deadline);

}  // namespace lockstep::net
