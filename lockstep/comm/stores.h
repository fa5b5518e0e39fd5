// c10d's stores, the key-value stores of the rendezvous.
#pragma once

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

/// A server (`is_server`) with its client, or a client alone. Does not wait for other clients. Throws what c10d does,
/// or std::runtime_error where the server at `port` does not answer until `timeout`.
StorePtr make_tcp_store(const std::string& host, std::uint16_t port, bool is_server, std::chrono::milliseconds timeout);

}  // namespace lockstep::detail
