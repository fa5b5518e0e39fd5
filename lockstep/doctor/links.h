// Tests of the links between hosts: on each host a probe server, to which the other hosts connect.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/doctor/facts.h>
#include <lockstep/doctor/probe.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace lockstep::doctor {

/// The probe server's message to each client, which identifies the rank that the client has reached.
struct ProbeAnswer {
  int rank = 0;
  std::string identity;  ///< identity of the host
  double clock = 0;      ///< Unix time in seconds when it was sent
};

/// The answer as one line of JSON.
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
  std::jthread thread_;  // last, because it uses the members above
};

/// The beginning of Link::problem when packets are dropped on the way.
inline constexpr std::string_view kNoAnswer = "no answer";

/// Connects to the probe server of `to` and reads its identity.
Link try_link(int from, const Facts& to, const WaitLimit& wait_limit);

/// The same for each of `targets`, many of them at the same time, with `limit` for each.
std::vector<Link> try_links(int from, const std::vector<const Facts*>& targets, std::chrono::milliseconds limit,
                            const std::stop_token& stop = {});

}  // namespace lockstep::doctor
