// The greeter: the doctor's server to which other hosts connect to test their links.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <thread>

namespace lockstep::doctor {

/// The greeter's message to each client, which tells the client which rank it has reached.
struct Greeting {
  int rank = 0;
  std::string identity;  ///< of the host
  double clock = 0;      ///< seconds since 1970 when it was sent
};

std::string encode(const Greeting& greeting);
/// nullopt for anything else, as other programs may send.
std::optional<Greeting> decode_greeting(const std::string& text);

/// Listens on a port of its own at one address, in a thread, and greets whoever connects. The destructor ends it.
class Greeter {
 public:
  /// Error(io) when the address cannot be listened on.
  Greeter(const std::string& address, int rank, std::string identity);
  Greeter(const Greeter&) = delete;
  Greeter& operator=(const Greeter&) = delete;
  ~Greeter();

  std::uint16_t port() const { return port_; }

 private:
  void greet_all(const std::stop_token& stop);

  int rank_;
  std::string identity_;
  UniqueFd listener_;
  std::uint16_t port_ = 0;
  std::jthread thread_;  // last: it uses the others
};

/// Seconds since 1970.
double clock_now();

}  // namespace lockstep::doctor
