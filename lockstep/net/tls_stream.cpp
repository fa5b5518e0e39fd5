// An OpenSSL connection over a buffered non-blocking socket, through a BIO that moves many records per system call.
#include <lockstep/base/error.h>
#include <lockstep/net/reasons.h>
#include <lockstep/net/tls_stream.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <boost/asio/error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>

namespace lockstep::net {
namespace {

using ErrorCode = boost::system::error_code;

// AES with 128 bits first: the security level requires it, and it is the fastest with hardware support.
constexpr auto kCiphers = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

}  // namespace

/// A socket with a buffer for each direction. OpenSSL requests each record by itself, in two reads; this requests many
/// records at once from the kernel.
struct Socket {
  int descriptor;
  std::size_t size;  ///< the size of each buffer
  std::unique_ptr<char[]> in{};
  std::size_t in_begin = 0;
  std::size_t in_end = 0;
  std::unique_ptr<char[]> out{};
  std::size_t out_begin = 0;
  std::size_t out_end = 0;
  int error = 0;       ///< errno of the failed call; 0: none failed
  bool ended = false;  ///< the peer has closed the connection

  /// Writes to the socket. False when the kernel takes no more now, or the connection is lost.
  bool flush() {
    while (out_begin < out_end) {
      const auto sent = ::send(descriptor, out.get() + out_begin, out_end - out_begin, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) {
        if (errno != EAGAIN) error = errno;
        return false;
      }
      out_begin += static_cast<std::size_t>(sent);
    }
    out_begin = out_end = 0;
    return true;
  }

  /// Reads from the socket. False when there is no data now, or the connection has ended.
  bool fill() {
    if (!in) in = std::make_unique_for_overwrite<char[]>(size);
    for (;;) {
      const auto count = ::recv(descriptor, in.get(), size, MSG_DONTWAIT);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno != EAGAIN) error = errno;
      if (count == 0) ended = true;
      in_begin = 0;
      in_end = static_cast<std::size_t>(std::max<ssize_t>(count, 0));
      return count > 0;
    }
  }
};

namespace {

Socket& socket_of(BIO* bio) { return *static_cast<Socket*>(::BIO_get_data(bio)); }

int read_bio(BIO* bio, char* into, std::size_t bytes, std::size_t* read) {
  Socket& socket = socket_of(bio);
  BIO_clear_retry_flags(bio);
  *read = 0;
  if (socket.in_begin == socket.in_end && !socket.fill()) {
    if (socket.error == 0 && !socket.ended) BIO_set_retry_read(bio);
    return 0;
  }
  *read = std::min(bytes, socket.in_end - socket.in_begin);
  std::memcpy(into, socket.in.get() + socket.in_begin, *read);
  socket.in_begin += *read;
  return 1;
}

int write_bio(BIO* bio, const char* from, std::size_t bytes, std::size_t* written) {
  Socket& socket = socket_of(bio);
  BIO_clear_retry_flags(bio);
  *written = 0;
  if (!socket.out) socket.out = std::make_unique_for_overwrite<char[]>(socket.size);
  if (socket.out_end == socket.size && !socket.flush()) {
    if (socket.error == 0) BIO_set_retry_write(bio);
    return 0;
  }
  *written = std::min(bytes, socket.size - socket.out_end);
  std::memcpy(socket.out.get() + socket.out_end, from, *written);
  socket.out_end += *written;
  return 1;
}

long control_bio(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;  // the writer of the data flushes it
}

const BIO_METHOD* bio_method() {
  static const auto method = [] {
    std::unique_ptr<BIO_METHOD, decltype(&::BIO_meth_free)> made(
        ::BIO_meth_new(::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "lockstep socket"), ::BIO_meth_free);
    ::BIO_meth_set_read_ex(made.get(), read_bio);
    ::BIO_meth_set_write_ex(made.get(), write_bio);
    ::BIO_meth_set_ctrl(made.get(), control_bio);
    return made;
  }();
  return method.get();
}

}  // namespace

struct TlsStream::State {
  std::shared_ptr<const PeerTls> tls;
  TlsTerms terms;
  Socket socket;
  std::unique_ptr<SSL, decltype(&::SSL_free)> ssl{nullptr, ::SSL_free};

  [[noreturn]] void fail_for(const ErrorCode& error) const {
    throw Error(is_refusal(error) ? ErrorKind::environment : ErrorKind::io, "network",
                reason_of(error, ssl.get(), terms));
  }

  [[noreturn]] void fail_as_lost() const {
    fail_for(socket.error != 0 ? ErrorCode(socket.error, boost::system::system_category())
                               : ErrorCode(boost::asio::error::eof));
  }

  /// The event for which an OpenSSL call that returned 0 or less waits; sets `ended` where the peer closed TLS.
  Wait wait_after(int result, bool& ended) {
    const int why = ::SSL_get_error(ssl.get(), result);
    const auto code = ::ERR_get_error();
    ::ERR_clear_error();
    switch (why) {
      case SSL_ERROR_WANT_READ: return Wait::to_read;
      case SSL_ERROR_WANT_WRITE: return Wait::to_write;
      case SSL_ERROR_ZERO_RETURN: ended = true; return Wait::nothing;
      case SSL_ERROR_SSL:
        if (ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING) fail_as_lost();
        send_alert();
        fail_for(ErrorCode(static_cast<int>(code), boost::asio::error::get_ssl_category()));
      default: fail_as_lost();
    }
  }

  /// The buffer holds the alert with the reason why this side refuses the other.
  void send_alert() noexcept {
    if (socket.error == 0) socket.flush();
  }
};

TlsTerms TlsStream::terms_of_peers() { return {.switched_on_by = "parallel.encrypt (LOCKSTEP_ENCRYPT)"}; }

TlsStream::TlsStream(std::shared_ptr<const PeerTls> tls, Side side, int socket, std::size_t buffer, TlsTerms terms)
    : state_(std::make_unique<State>(State{std::move(tls), std::move(terms), Socket{socket, buffer}})) {
  auto& context = side == Side::server ? *state_->tls->server : *state_->tls->client;
  state_->ssl.reset(::SSL_new(context.native_handle()));
  SSL* ssl = state_->ssl.get();
  BIO* bio = ::BIO_new(bio_method());
  const bool made = ssl != nullptr && bio != nullptr && SSL_set_min_proto_version(ssl, TLS1_3_VERSION) == 1 &&
                    ::SSL_set_ciphersuites(ssl, kCiphers) == 1;
  if (!made) {
    ::BIO_free(bio);
    ::ERR_clear_error();
    fail(ErrorKind::io, "network", "TLS cannot be started (out of memory)");
  }
  ::BIO_set_data(bio, &state_->socket);
  ::BIO_set_init(bio, 1);
  ::SSL_set_bio(ssl, bio, bio);
  SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (buffer >= kBulk) SSL_clear_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
  side == Side::server ? ::SSL_set_accept_state(ssl) : ::SSL_set_connect_state(ssl);
}

TlsStream::~TlsStream() = default;
TlsStream::TlsStream(TlsStream&&) noexcept = default;
TlsStream& TlsStream::operator=(TlsStream&&) noexcept = default;

TlsStream::Wait TlsStream::handshake() {
  ::ERR_clear_error();
  const int result = ::SSL_do_handshake(state_->ssl.get());
  if (result == 1) return flush();
  bool ended = false;
  const auto wait = state_->wait_after(result, ended);
  if (ended) state_->fail_as_lost();
  return flush() == Wait::to_write ? Wait::to_write : wait;
}

TlsStream::Moved TlsStream::read(std::byte* into, std::size_t bytes) {
  Moved moved;
  ::ERR_clear_error();
  const int result = ::SSL_read_ex(state_->ssl.get(), into, bytes, &moved.bytes);
  if (result != 1) moved.wait = state_->wait_after(result, moved.ended);
  return moved;
}

TlsStream::Moved TlsStream::write(const std::byte* from, std::size_t bytes) {
  Moved moved;
  ::ERR_clear_error();
  const int result = ::SSL_write_ex(state_->ssl.get(), from, bytes, &moved.bytes);
  if (result != 1) moved.wait = state_->wait_after(result, moved.ended);
  if (moved.ended) state_->fail_as_lost();
  return moved;
}

TlsStream::Wait TlsStream::flush() {
  if (state_->socket.flush()) return Wait::nothing;
  if (state_->socket.error != 0) state_->fail_as_lost();
  return Wait::to_write;
}

void TlsStream::change_keys() {
  ::ERR_clear_error();
  if (::SSL_key_update(state_->ssl.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1) return;
  const auto code = ::ERR_get_error();
  ::ERR_clear_error();
  state_->fail_for(ErrorCode(static_cast<int>(code), boost::asio::error::get_ssl_category()));
}

void TlsStream::end() noexcept {
  ::ERR_clear_error();
  if (::SSL_is_init_finished(state_->ssl.get()) == 1 && ::SSL_shutdown(state_->ssl.get()) >= 0) state_->send_alert();
  ::ERR_clear_error();
}

void await_handshake(TlsStream& stream, int socket, std::chrono::steady_clock::time_point deadline) {
  using std::chrono::milliseconds;
  for (;;) {
    const auto wait = stream.handshake();
    if (wait == TlsStream::Wait::nothing) return;
    const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left <= milliseconds(0))
      fail(ErrorKind::timeout, "network", "its part of the TLS handshake did not arrive in time");
    pollfd ready{socket, static_cast<short>(wait == TlsStream::Wait::to_write ? POLLOUT : POLLIN), 0};
    ::poll(&ready, 1, static_cast<int>(std::min(left, milliseconds(60'000)).count()));
  }
}

}  // namespace lockstep::net
