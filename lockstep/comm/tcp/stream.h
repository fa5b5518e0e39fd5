// The bytes of one connection between two ranks: a plain TCP socket, or TLS 1.3 over one.
#pragma once

#include <lockstep/net/tls_stream.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

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

}  // namespace lockstep::detail::tcp
