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
  std::string identity;  ///< identity of the host
  double clock = 0;      ///< Unix time in seconds when it was sent
};

std::string encode(const ProbeAnswer& answer);
/// Parses an answer; nullopt for other text, which other programs may send.
std::optional<ProbeAnswer> decode_probe_answer(const std::string& text);

/// Listens on a free port at one address, in a thread, and answers every connection. The destructor stops it.
class ProbeServer {
 public:
  /// Error(io) when it cannot listen on the address.
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

/// The Unix time in seconds.
double clock_now();

}  // namespace lockstep::doctor
