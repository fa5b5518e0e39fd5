// A probe of a c10d store over its own connection, before a client of c10d connects to it.
//
// The client of libtorch 1.13 has a second connection with a thread, which ends the process when that is reset; this
// happens when the store ends while it connects. So a rank that may have reached the store of an earlier rendezvous,
// which may end soon, asks over its own connection first.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace lockstep::detail {

/// One connection. Errors are std::runtime_error with the reason in words: the port is not open, it was closed.
class StoreProbe {
 public:
  StoreProbe(const std::string& host, std::uint16_t port, std::chrono::milliseconds limit);

  /// Whether the store holds `key` (with all prefixes).
  bool holds(const std::string& key, std::chrono::milliseconds limit);

  /// Whether the store ends within `limit`.
  bool goes_within(std::chrono::milliseconds limit);

 private:
  bool readable_within(std::chrono::milliseconds limit);

  UniqueFd socket_;
};

}  // namespace lockstep::detail
