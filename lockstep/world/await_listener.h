// Waiting until a program on another host has opened its port.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace lockstep {

/// A connection, or why there is none.
struct Connected {
  UniqueFd socket;  ///< does not block
  std::string reason;
};

/// One attempt at each address behind the name.
Connected connect_once(const std::string& host, std::uint16_t port, std::chrono::milliseconds limit);

/// Reports a wait that goes on: how long it has lasted, and why the last attempt failed.
using TellWaiting = std::function<void(std::chrono::seconds waited, const std::string& reason)>;

/// Connects to host:port, and again until that succeeds (nullopt) or `limit` has passed (the reason of the last
/// failure, in words). Sends nothing. Calls `tell` after 2 s and then every 10 s; names are resolved anew for each
/// attempt. Calls `give_up` between two attempts: what that throws ends the wait.
std::optional<std::string> await_listener(const std::string& host, std::uint16_t port, std::chrono::milliseconds limit,
                                          const TellWaiting& tell, const std::function<void()>& give_up = {});

}  // namespace lockstep
