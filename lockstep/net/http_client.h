// Blocking HTTP/1.1 requests to one server over a persistent connection, plain or through TLS.
#pragma once

#include <lockstep/net/http_messages.h>
#include <lockstep/net/tls_terms.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace boost::asio::ssl {
class context;
}

namespace lockstep::net {

struct HttpServer {
  std::string host;  ///< a name or an address, IPv6 without brackets
  std::uint16_t port = 0;
  std::string tls_name{};  ///< the name for which its certificate must be valid; empty: the host's

  /// "host:port", an IPv6 address in brackets.
  std::string text() const;
};

/// Connects at the first request, and keeps the connection. An error closes it, and the next request makes a new one.
/// Follows no redirections and uses no proxy. Not thread-safe, except cancel().
class HttpClient {
 public:
  /// A response with a longer body is an error, and so is one with a header above 8 KiB. `tls`: null for plain HTTP;
  /// otherwise the server's certificate must be valid for its host. `terms` are for messages.
  HttpClient(HttpServer server, std::shared_ptr<boost::asio::ssl::context> tls, std::size_t longest_body,
             TlsTerms terms = {});
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;
  ~HttpClient();

  const HttpServer& server() const noexcept;

  /// These functions return the response with any status. Errors: timeout when it has not arrived by the deadline; data
  /// when it is not HTTP or is too long; environment when TLS fails in a way that a retry cannot fix; io when the
  /// connection fails. The message is only the reason, without the server's name. After an error it is unknown whether
  /// the server received the request.
  HttpResponse get(const std::string& target, std::chrono::steady_clock::time_point deadline);
  HttpResponse post(const std::string& target, const std::string& json, std::chrono::steady_clock::time_point deadline);
  HttpResponse send(HttpAsk ask, std::chrono::steady_clock::time_point deadline);

  /// A request whose answer may have no end: with status 200 `take` gets the pieces of the body as they arrive. An
  /// exception from it ends the request, and is rethrown.
  HttpResponse stream(HttpAsk ask, std::chrono::steady_clock::time_point deadline,
                      std::function<void(std::string_view)> take);

  /// May be called from any thread: the current request, and all later ones, end with Error(io).
  void cancel() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::net
