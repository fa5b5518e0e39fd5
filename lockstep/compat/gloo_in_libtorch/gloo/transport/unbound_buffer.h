// Memory to send from and to receive into; see ../context.h.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gloo::transport {

/// Only libtorch makes one. Virtual functions are in the order of its table, of which these are the beginning.
class UnboundBuffer {
 public:
  UnboundBuffer() = delete;
  virtual ~UnboundBuffer() = 0;

  /// False: the wait was aborted. A negative timeout: that of the context.
  virtual bool waitRecv(int* source, std::chrono::milliseconds timeout) = 0;
  virtual bool waitSend(int* destination, std::chrono::milliseconds timeout) = 0;
  virtual void abortWaitRecv() = 0;
  virtual void abortWaitSend() = 0;
  virtual void send(int destination, std::uint64_t slot, std::size_t offset, std::size_t bytes) = 0;
  virtual void recv(int source, std::uint64_t slot, std::size_t offset, std::size_t bytes) = 0;

  bool waitRecv() { return waitRecv(nullptr, std::chrono::milliseconds(-1)); }
  bool waitSend() { return waitSend(nullptr, std::chrono::milliseconds(-1)); }
};

}  // namespace gloo::transport
