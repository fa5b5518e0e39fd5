#include <lockstep/comm/store_probe.h>

#include <lockstep/world/await_listener.h>

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>

namespace lockstep::detail {
namespace {

// c10d's TCPStore, libtorch 1.13: numbers in the machine's order of bytes.
constexpr std::uint8_t kCheck = 4;
constexpr std::uint8_t kReady = 0;

void append(std::string& text, std::uint64_t number) {
  text.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::string question(const std::string& key) {
  std::string text(1, static_cast<char>(kCheck));
  append(text, 1);  // keys
  append(text, key.size());
  return text + key;
}

[[noreturn]] void fail_for(int error) { throw std::runtime_error(std::strerror(error)); }

// The next byte; nullopt: the other end has closed.
std::optional<std::uint8_t> receive(int socket) {
  std::uint8_t byte = 0;
  const auto count = ::recv(socket, &byte, 1, 0);
  if (count < 0) fail_for(errno);
  return count == 0 ? std::nullopt : std::optional(byte);
}

}  // namespace

StoreProbe::StoreProbe(const std::string& host, std::uint16_t port, std::chrono::milliseconds limit) {
  auto connected = connect_once(host, port, limit);
  if (!connected.socket) throw std::runtime_error(connected.reason);
  socket_ = std::move(connected.socket);
}

bool StoreProbe::readable_within(std::chrono::milliseconds limit) {
  pollfd ready{socket_.get(), POLLIN, 0};
  const int found = ::poll(&ready, 1, static_cast<int>(limit.count()));
  if (found < 0 && errno != EINTR) fail_for(errno);
  return found > 0;
}

// Whole, as the store reads a question to its end before it looks at anything else: it fits into any socket's buffer.
bool StoreProbe::holds(const std::string& key, std::chrono::milliseconds limit) {
  const auto text = question(key);
  const auto sent = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
  if (sent < 0) fail_for(errno);
  if (!readable_within(limit))
    throw std::runtime_error("who listens there says nothing: it is no store, or rank 0 hangs");
  const auto answer = receive(socket_.get());
  if (!answer) fail_for(ECONNRESET);
  return *answer == kReady;
}

bool StoreProbe::goes_within(std::chrono::milliseconds limit) {
  try {
    return readable_within(limit) && !receive(socket_.get());
  } catch (const std::exception&) {
    return true;
  }
}

}  // namespace lockstep::detail
