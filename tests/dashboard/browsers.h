// A browser as far as the server of a live page sees it: HTTP requests, and a WebSocket, on a plain socket. It can be
// as rude as a test wants.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <cstdint>
#include <string>

namespace lockstep::test {

/// What a server answered.
struct Answer {
  int status = 0;  ///< 0: nothing
  std::string head;
  std::string body;
};

/// The whole answer to a request, after which the server must close the connection.
Answer request(std::uint16_t port, const std::string& method, const std::string& target);
inline Answer get(std::uint16_t port, const std::string& target) { return request(port, "GET", target); }

/// Whether a connection to the port is refused.
bool is_closed(std::uint16_t port);

/// An open page.
class Browser {
 public:
  /// Asks for a WebSocket.
  Browser(std::uint16_t port, const std::string& target);

  /// 101: it is open.
  int status() const { return status_; }

  /// The next text; empty when the server has closed the connection.
  std::string receive();
  void send(const std::string& text) const;
  /// Bytes that are no frame.
  void send_bytes(const std::string& bytes) const;
  /// Whether the server closes the connection, however much it sends before.
  bool is_closed_in_the_end();

 private:
  bool read_more();
  std::string take(std::size_t count);

  UniqueFd socket_;
  std::string buffer_;
  int status_ = 0;
};

}  // namespace lockstep::test
