// A question to a store of c10d, before a client of c10d connects to it.
//
// The client of libtorch 1.13 has a second connection with a thread, which ends the process when that is reset; and it
// is when the store goes while it connects. So a rank that may have come to the store of an earlier meeting, which is
// about to go, asks over a connection of its own first.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace lockstep::detail {

/// One connection. Errors are std::runtime_error, with the reason in words: nobody listens, it was closed.
class StoreProbe {
 public:
  StoreProbe(const std::string& host, std::uint16_t port, std::chrono::milliseconds limit);

  /// Whether the store holds `key`, as it is called there.
  bool holds(const std::string& key, std::chrono::milliseconds limit);

  /// Whether the store goes within `limit`.
  bool goes_within(std::chrono::milliseconds limit);

 private:
  bool readable_within(std::chrono::milliseconds limit);

  UniqueFd socket_;
};

}  // namespace lockstep::detail
