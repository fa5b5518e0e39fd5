// The event loop of a store's server: connections, handshakes, requests and answers. Not thread-safe, except stop().
#pragma once

#include <lockstep/base/refusal_log.h>
#include <lockstep/base/unique_fd.h>
#include <lockstep/net/tls_stream.h>
#include <lockstep/store/protocol.h>
#include <lockstep/store/server.h>
#include <lockstep/store/values.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::store {

class ServerLoop {
 public:
  /// std::runtime_error when the process has no descriptors left.
  ServerLoop(const StoreServerOptions& options, std::vector<UniqueFd> listeners);

  /// Runs until stop().
  void run();
  void stop() const;

  /// Closes all connections.
  void close();

 private:
  using Time = std::chrono::steady_clock::time_point;

  enum class Stage {
    hello,    ///< the client has to send its greeting
    tls,      ///< both sides are in the handshake of TLS
    proof,    ///< the client has to prove that it has the secret
    member,   ///< the client may send requests
    refused,  ///< the client got the reason, and has to close the connection
  };

  struct Peer {
    UniqueFd socket{};
    std::string address{};
    std::unique_ptr<net::TlsStream> stream{};  ///< for an encrypted connection, from Stage::tls on
    Stage stage = Stage::hello;
    Nonces nonces{};
    Time came{};
    std::optional<Time> deadline{};
    std::string in{};   ///< received bytes that are not a complete message yet
    std::string out{};  ///< bytes to send
    bool waits_to_send = false;
    std::size_t heard_in_vain = 0;  ///< bytes received since it was refused
  };
  using Id = std::uint64_t;

  void accept_from(int listener);
  void welcome(UniqueFd socket, std::string address);
  bool has_room();
  void watch_listeners(bool on);

  void serve(Id id, std::uint32_t events);
  enum class Received { nothing, some, end };
  Received receive(Peer& peer);
  void advance_tls(Peer& peer, Id id);
  void watch_to_send(Peer& peer, Id id, bool more);
  void handle_input(Id id, Peer& peer);
  void hear_hello(Peer& peer);
  void hear_proof(Peer& peer);
  void hear_requests(Id id, Peer& peer);
  void become_member(Id id, Peer& peer);
  void refuse(Peer& peer, std::string_view last_words, const std::string& why);

  void send_answers(std::vector<Answer> answers);
  void send(Peer& peer, Id id, std::string_view bytes);
  void flush(Peer& peer, Id id);
  void set_deadline(Id id, Peer& peer, std::optional<Time> deadline);

  void drop(Id id, const std::string& why);
  void drop_broken();
  void drop_overdue();
  int poll_timeout() const;  ///< milliseconds, -1: none
  void note(const Peer& peer, const std::string& why);

  const StoreServerOptions options_;
  UniqueFd epoll_;
  UniqueFd wake_;
  std::vector<UniqueFd> listeners_;
  bool listening_ = false;
  std::optional<Time> accepts_again_;  ///< set while no descriptors are left: when to accept again
  std::map<Id, Peer> peers_;
  Id next_id_;
  std::set<Id> strangers_;  ///< connections before the end of the handshake, oldest first
  std::set<std::pair<Time, Id>> deadlines_;
  std::vector<std::pair<Id, std::string>> broken_;  ///< connections that failed while another one was served
  Values values_;
  RefusalLog refusals_;
};

}  // namespace lockstep::store
