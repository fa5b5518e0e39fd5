// A wait until a program on another host listens on its port.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace lockstep {

/// A connection, or the reason for the failure.
struct Connected {
  UniqueFd socket;  ///< does not block
  std::string reason;
  bool refused = false;  ///< each address refused: that host is up, and no process listens there
};

/// Makes one attempt to connect to each address of the name.
Connected connect_once(const std::string& host, std::uint16_t port, std::chrono::milliseconds limit);

/// The callback that reports a wait: how long it has lasted, and why the last attempt failed.
using TellWaiting = std::function<void(std::chrono::seconds waited, const std::string& reason)>;

/// Retries to connect to host:port until that succeeds (returns nullopt) or `limit` has passed (returns the reason of
/// the last failure). Sends no data. Calls `tell` after 2 s and then every 10 s; names are resolved again for each
/// attempt. Calls `give_up` between two attempts: an exception from it ends the wait.
std::optional<std::string> await_listener(const std::string& host, std::uint16_t port, std::chrono::milliseconds limit,
                                          const TellWaiting& tell, const std::function<void()>& give_up = {});

}  // namespace lockstep
