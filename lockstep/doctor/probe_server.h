// The probe server: the doctor's server to which other hosts connect to test their links.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <thread>

namespace lockstep::doctor {

/// The probe server's message to each client, which tells the client which rank it has reached.
struct ProbeAnswer {
  int rank = 0;
  std::string identity;  ///< of the host
  double clock = 0;      ///< seconds since 1970 when it was sent
};

std::string encode(const ProbeAnswer& answer);
/// nullopt for anything else, as other programs may send.
std::optional<ProbeAnswer> decode_probe_answer(const std::string& text);

/// Listens on a port of its own at one address, in a thread, and answers whoever connects. The destructor ends it.
class ProbeServer {
 public:
  /// Error(io) when the address cannot be listened on.
  ProbeServer(const std::string& address, int rank, std::string identity);
  ProbeServer(const ProbeServer&) = delete;
  ProbeServer& operator=(const ProbeServer&) = delete;
  ~ProbeServer();

  std::uint16_t port() const { return port_; }

 private:
  void answer_all(const std::stop_token& stop);

  int rank_;
  std::string identity_;
  UniqueFd listener_;
  std::uint16_t port_ = 0;
  std::jthread thread_;  // last: it uses the others
};

/// Seconds since 1970.
double clock_now();

}  // namespace lockstep::doctor
