// The only place that knows how c10d differs between the libtorch versions Lockstep builds with (1.13 and newer).
#pragma once

#include <torch/version.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::detail {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

inline std::vector<std::uint8_t> to_bytes(std::string_view text) { return {text.begin(), text.end()}; }
inline std::string to_text(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

/// A server (`is_server`) with its client, or a client alone. Does not wait for other clients.
inline StorePtr make_tcp_store(const std::string& host, std::uint16_t port, bool is_server,
                               std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = is_server;
  options.waitWorkers = false;
  options.timeout = std::chrono::ceil<std::chrono::seconds>(timeout);  // c10d connects with whole seconds, rounded down
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
  options.useLibUV = false;  // not compiled into every libtorch
#endif
  return c10::make_intrusive<c10d::TCPStore>(host, options);
}

}  // namespace lockstep::detail
