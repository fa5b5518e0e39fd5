// Reads and writes of a plain socket, several pieces of memory in one system call, and of TLS, one piece at a time.
#include <lockstep/comm/tcp/stream.h>

#include <lockstep/base/error.h>

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace lockstep::detail::tcp {
namespace {

[[noreturn]] void fail_as_lost(int error) { fail(ErrorKind::io, "tcp", "{}", std::strerror(error)); }

}  // namespace

Stream::Moved Stream::read(std::byte* into, std::size_t bytes) {
  if (tls_) return tls_->read(into, bytes);
  return ahead_begin_ < ahead_end_ ? take_ahead(into, bytes) : read_plain(into, bytes);
}

Stream::Moved Stream::take_ahead(std::byte* into, std::size_t bytes) {
  const std::size_t taken = std::min(bytes, ahead_end_ - ahead_begin_);
  std::memcpy(into, ahead_->data() + ahead_begin_, taken);
  ahead_begin_ += taken;
  return {.bytes = taken};
}

Stream::Moved Stream::read_plain(std::byte* into, std::size_t bytes) {
  if (!ahead_) ahead_ = std::make_unique_for_overwrite<std::array<std::byte, kAhead>>();
  std::array<iovec, 2> parts{{{into, bytes}, {ahead_->data(), kAhead}}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  for (;;) {
    const auto count = ::recvmsg(socket_, &message, MSG_DONTWAIT);
    if (count > 0) {
      const auto all = static_cast<std::size_t>(count);
      ahead_begin_ = 0;
      ahead_end_ = all - std::min(all, bytes);
      return {.bytes = std::min(all, bytes)};
    }
    if (count == 0) fail(ErrorKind::io, "tcp", "it closed the connection");
    if (errno == EAGAIN) return {.wait = Wait::to_read};
    if (errno != EINTR) fail_as_lost(errno);
  }
}

Stream::Moved Stream::write(std::span<const iovec> parts) {
  if (!tls_) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());  // NOLINT: the kernel only reads
    message.msg_iovlen = parts.size();
    for (;;) {
      const auto count = ::sendmsg(socket_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count >= 0) return {.bytes = static_cast<std::size_t>(count)};
      if (errno == EAGAIN) return {.wait = Wait::to_write};
      if (errno != EINTR) fail_as_lost(errno);
    }
  }
  Moved all;
  for (const auto& part : parts) {
    for (std::size_t at = 0; at < part.iov_len;) {
      const auto moved = tls_->write(static_cast<const std::byte*>(part.iov_base) + at, part.iov_len - at);
      if (moved.wait != Wait::nothing) return all.bytes > 0 ? all : moved;
      at += moved.bytes;
      all.bytes += moved.bytes;
      if (++records_with_key_ < records_of_key_) continue;  // a call makes one record
      tls_->change_keys();
      records_with_key_ = 0;
    }
  }
  return all;
}

}  // namespace lockstep::detail::tcp
