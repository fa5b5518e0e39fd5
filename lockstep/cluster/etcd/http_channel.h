// One HTTP/1.1 connection for small requests, plain or through TLS, with a deadline on every step.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace lockstep::cluster::etcd {

struct HttpServer {
  std::string host;  ///< a name or an address, IPv6 without brackets
  std::uint16_t port = 0;

  /// "host:port", an IPv6 address in brackets.
  std::string text() const;
};

/// Files of PEM that TLS needs; empty ones are not used. The server's certificate is always checked, also its name.
struct TlsFiles {
  std::string authorities;  ///< CAs that may have signed the server's certificate; empty: the system's
  std::string certificate;  ///< this client's, where the server asks for one
  std::string key;          ///< that certificate's private key

  bool operator==(const TlsFiles&) const = default;
};

struct HttpAnswer {
  unsigned status = 0;
  std::string body;
};

/// Connects when there is something to send, and keeps the connection. After an error it is closed, and the next
/// `post` makes a new one. Follows no redirections and uses no proxy. Not thread-safe.
class HttpChannel {
 public:
  /// Longer answers are an error. `tls`: nullopt for plain HTTP. Error(io) when one of its files cannot be used.
  HttpChannel(HttpServer server, const std::optional<TlsFiles>& tls, std::size_t longest_answer);
  HttpChannel(HttpChannel&&) noexcept;
  HttpChannel& operator=(HttpChannel&&) noexcept;
  ~HttpChannel();

  const HttpServer& server() const noexcept;

  /// Error(timeout) when the answer is not there by the deadline, Error(data) when it is no HTTP or too long, Error(io)
  /// when the connection fails; the message is the reason alone, without the server's name. Whether the server saw the
  /// request is unknown then.
  HttpAnswer post(const std::string& target, const std::string& json, std::chrono::steady_clock::time_point deadline);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::cluster::etcd
